// Package deploy_test holds what is deployed beside the binary to what the binary really
// does: dashboards and alerts use metrics and labels that there are, each alert fires when
// it should and not otherwise, and each has a place in the runbook.
package deploy_test
