package api

import "github.com/tidemill/tidemill/serve/api/operation"

func init() {
	operation.Costs(operation.Dear, GetAudit.Description, GetDoctor.Description, MakeBackup.Description, CheckAuditTrail.Description, Scan.Description)
	operation.Costs(operation.Cheap, GetConfig.Description, GetOpenAPI.Description, GetOpenAPIYAML.Description, GetMe.Description, GetUser.Description, GetJob.Description, GetJobPayload.Description, GetDead.Description, GetDeadPayload.Description, GetDeadOriginal.Description, GetOperation.Description, GetDescription.Description)
}
