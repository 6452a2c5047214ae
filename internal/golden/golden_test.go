package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// told is a test that keeps what it is told.
type told struct {
	testing.TB
	errors []string
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

func TestAFileIsHeldToWhatIsPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said")
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{"one\ntwo\nthree\n": "", "one\n2\nthree\n": "has  two\nwant 2", "one\ntwo\nthree\nfour\n": "has  \nwant four", "": "has  one\nwant "} {
		all := &told{TB: t}
		Same(all, file, []byte(got))
		if said := strings.Join(all.errors, ""); (said == "") != (want == "") || !strings.HasSuffix(said, want) {
			t.Errorf("%q is answered %q, want %q", got, said, want)
		}
	}
	all := &told{TB: t}
	if Same(all, file+"-not", []byte("one")); len(all.errors) != 1 {
		t.Errorf("a file that is not there is answered %q", all.errors)
	}
	*update = true
	defer func() { *update = false }()
	all = &told{TB: t}
	if Same(all, file, []byte("new")); len(all.errors) > 0 {
		t.Error(all.errors)
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != "new" {
		t.Errorf("the file has %q, %v", is, err)
	}
}
