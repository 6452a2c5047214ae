package gdelt

import (
	"strings"
	"time"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// Name is what the name of a file says.
type Name struct {
	Kind  record.Kind
	Batch string // up to the first dot
	Zip   bool
}

// maxName is how many bytes the name of a file may have.
const maxName = 255

// ParseName reads the name of a file, without its folder: such as 20250323151500.export.CSV,
// 20250323151500.translation.mentions.CSV.zip. Not ok: another name, such as of a hidden file
// or of one that is still being written.
func ParseName(name string) (n Name, ok bool) {
	if len(name) > maxName || strings.ContainsAny(name, "/\\") {
		return Name{}, false
	}
	lower := strings.ToLower(name)
	lower, n.Zip = strings.CutSuffix(lower, ".zip")
	switch {
	case strings.HasSuffix(lower, ".export.csv"):
		n.Kind = record.Event
	case strings.HasSuffix(lower, ".mentions.csv"):
		n.Kind = record.Mention
	default:
		return Name{}, false
	}
	n.Batch, _, _ = strings.Cut(name, ".")
	return n, record.CheckBatchID(n.Batch) == nil
}

// Time is the batch id as a time; the zero time if it is not one.
func (n Name) Time() time.Time {
	t, err := time.Parse("20060102150405", n.Batch)
	if err != nil {
		return time.Time{}
	}
	return t
}
