package record_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

func TestABatchIsOfOneProject(t *testing.T) {
	news, sport := uuid.MustParse("0e4bb98e-7da9-5d6a-a7d2-0f7b0e1d2c3b"), uuid.MustParse("0e4bb98e-7da9-5d6a-a7d2-0f7b0e1d2c3c")
	names := map[string]record.Batch{}
	for _, project := range []uuid.UUID{news, sport, {}} {
		for _, id := range []string{"20250323151500", "b", "b/7", "/b", "b/", "/", news.String(), news.String() + "/b", sport.String() + "/b/7", "日"} {
			b := record.NewBatch(project, id)
			if other, taken := names[b.String()]; taken {
				t.Errorf("%v and %s of %s have the name %q", other, id, project, b)
			}
			names[b.String()] = b
			if again := record.ParseBatch(b.String()); again != b || again.Project() != project || again.ID() != id {
				t.Errorf("%s of %s is read from %q as %s of %s", id, project, b, again.ID(), again.Project())
			}
		}
	}
	if want := news.String() + "/b/7"; names[want] == (record.Batch{}) {
		t.Errorf("there is no batch %q", want)
	}
	for _, wrong := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 256)} {
		if _, err := record.ToWindow(record.NewBatch(news, wrong), record.Event, []byte(`{"globalEventId":1}`), &record.Record{}); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("the batch id %q: %v", wrong, err)
		}
	}
	for _, other := range []string{"20250323151500", "b/7", "b", strings.ToUpper(news.String()) + "/b", "{" + news.String() + "}/b", news.String()} {
		if b := record.ParseBatch(other); b.Project() != (uuid.UUID{}) || b.ID() != other || b.String() != other {
			t.Errorf("%q is read as %s of %s", other, b.ID(), b.Project())
		}
	}
}

func TestAKeyIsItsProjects(t *testing.T) {
	const project = "0e4bb98e-7da9-5d6a-a7d2-0f7b0e1d2c3b"
	for _, c := range []struct{ header, want string }{{project, project + "/7"}, {"", "7"}, {"news", "7"}, {strings.ToUpper(project), "7"}, {project + "/8", "7"}} {
		m := &tidemill.Message{Header: []tidemill.Field{{Name: []byte(record.ProjectHeader), Value: []byte(c.header)}}}
		if got := string(append(record.AppendProject(nil, m), '7')); got != c.want {
			t.Errorf("with the project %q it is %q, want %q", c.header, got, c.want)
		}
	}
	if got := record.AppendProject([]byte("x"), &tidemill.Message{}); string(got) != "x" {
		t.Errorf("without a project it is %q", got)
	}
}
