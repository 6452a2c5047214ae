package record

import (
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// ProjectHeader carries the project of an outgoing record, unless it is the project of records
// that come without one.
const ProjectHeader = "X-Project-ID"

// A Batch is a batch id in the name space of a project: the same batch id in two projects is
// two batches.
type Batch struct{ name string }

// NewBatch is the batch of that id in a project.
func NewBatch(project uuid.UUID, id string) Batch { return Batch{project.String() + "/" + id} }

// ParseBatch is the batch that a window store has under a name, the inverse of String. A name
// that NewBatch does not make belongs to a batch without a project.
func ParseBatch(name string) Batch { return Batch{name} }

// String is the batch's name in a window store: the project's id, a slash, the batch id.
// Different batches have different names.
func (b Batch) String() string { return b.name }

// Project is the batch's project; the zero UUID: none.
func (b Batch) Project() uuid.UUID {
	project, _ := b.split()
	return project
}

// ID is the batch id, as senders give it.
func (b Batch) ID() string {
	_, id := b.split()
	return id
}

func (b Batch) split() (uuid.UUID, string) {
	before, id, found := strings.Cut(b.name, "/")
	project, ok := parseProject(before)
	if !found || !ok {
		return uuid.UUID{}, b.name
	}
	return project, id
}

// parseProject reads a project's id in the form written here: uuid.Parse accepts other forms.
func parseProject(s string) (uuid.UUID, bool) {
	id, err := uuid.Parse(s)
	return id, err == nil && id.String() == s
}

// AppendProject appends the project that a message names in ProjectHeader, and a slash; nothing
// if it names none. Keys of records begin with a number that is not a UUID, so a key behind a
// project differs from every key without one.
func AppendProject(dst []byte, m *tidemill.Message) []byte {
	project := string(m.Get(ProjectHeader))
	if _, ok := parseProject(project); !ok {
		return dst
	}
	return append(append(dst, project...), '/')
}
