package kafkasource

import (
	"slices"
	"testing"

	"github.com/tidemill/tidemill"
)

// What a sender calls its headers changes nothing of a job, such as its tenant.
func TestHeadersThatBeginAsOursStayTheJobs(t *testing.T) {
	var bytes []byte
	job := &tidemill.Message{ID: "1", Tenant: "one", To: "q"}
	names := []string{tenantHeader, "x", idHeader, priorityHeader, prefix, asIs, asIs + "x", prefix + "other"}
	for _, name := range names {
		job.Header = append(job.Header, tidemill.Field{Name: []byte(name), Value: []byte("7")})
	}
	var got tidemill.Message
	new(Source).message(&got, new(partition), 0, &slot{rec: record(job, "q", &bytes)})
	var had []string
	for _, f := range got.Header {
		had = append(had, string(f.Name))
	}
	if got.ID != "1" || got.Tenant != "one" || got.Priority != 0 || !slices.Equal(had, names) {
		t.Errorf("received %q of %q with priority %d and headers %q, want %q", got.ID, got.Tenant, got.Priority, had, names)
	}
}
