package backup

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// folder is one with files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// filesIn are the files in a folder.
func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		if runtime.GOOS != "windows" && i.Mode().Perm() != 0o600 {
			t.Errorf("%s is of mode %v", path, i.Mode())
		}
		name, _ := filepath.Rel(dir, path)
		b, err := os.ReadFile(path)
		all[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func random(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

var some = map[string]string{"tidemill.db": strings.Repeat("page", 50_000) + random(30_000), "api.token": "s3cret\n", "geo/a/b.mmdb": random(5000), "empty": ""}

func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	m := Manifest{Version: "1.2.3", At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Systems: []string{"analytics"}, Schema: map[string]int{"queue": 2}}
	if err := Write(t.Context(), &out, folder(t, files), m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAnArchiveGivesBackWhatWasPutIn(t *testing.T) {
	to := t.TempDir()
	m, err := Read(t.Context(), bytes.NewReader(archive(t, some)), to, func(m *Manifest) error {
		if len(filesIn(t, to)) > 0 {
			t.Error("something is written before the manifest was seen")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := filesIn(t, to); !maps.Equal(got, some) {
		t.Errorf("%d files come back, want those %d", len(got), len(some))
	}
	var size int64
	for _, text := range some {
		size += int64(len(text))
	}
	if m.Version != "1.2.3" || m.Format != Format || !reflect.DeepEqual(m.Schema, map[string]int{"queue": 2}) || m.Bytes() != size || len(m.Files) != len(some) {
		t.Errorf("its manifest is %+v", m)
	}
}

func TestAnArchiveThatIsCutIsRefusedWhereverItIsCut(t *testing.T) {
	whole := archive(t, some)
	for n := 0; n < len(whole); n += 1 + n/50 {
		_, err := Read(t.Context(), bytes.NewReader(whole[:n]), t.TempDir(), nil)
		if !errors.Is(err, ErrCut) && !(n < 4 && errors.Is(err, ErrNone)) {
			t.Errorf("cut after %d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := Read(t.Context(), bytes.NewReader(whole[:len(whole)-1]), t.TempDir(), nil); !errors.Is(err, ErrCut) {
		t.Errorf("without its last byte: %v", err)
	}
}

func TestAnArchiveWithAnotherByteGivesBackNothingElse(t *testing.T) {
	whole := archive(t, some)
	for n := 0; n < len(whole); n += 1 + n/40 {
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1 << (n % 8)
		to := t.TempDir()
		if _, err := Read(t.Context(), bytes.NewReader(flipped), to, nil); err == nil {
			if !maps.Equal(filesIn(t, to), some) { // as a window of another size says nothing of the content
				t.Errorf("with another byte %d of %d it gives back something else", n, len(whole))
			}
		} else if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrCut) && !errors.Is(err, ErrNone) && !errors.Is(err, ErrNewer) {
			t.Errorf("with another byte %d: %v", n, err)
		}
	}
	if _, err := Read(t.Context(), bytes.NewReader(append(bytes.Clone(whole), "more"...)), t.TempDir(), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("with more behind it: %v", err)
	}
}

// entry is a file of a tar that somebody else has made.
type entry struct{ name, text string }

func made(t *testing.T, m any, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	packed, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	all := tar.NewWriter(packed)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append([]entry{{manifestFile, string(text)}}, entries...) {
		if err := all.WriteHeader(&tar.Header{Name: e.name, Size: int64(len(e.text)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := all.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(all.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatIsNoBackupOfOursIsRefused(t *testing.T) {
	const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	x := func(names ...string) (m Manifest) {
		m.Format = 1
		for _, n := range names {
			m.Files = append(m.Files, File{n, 1, sumOfX})
		}
		return m
	}
	outside := filepath.Join(t.TempDir(), "theirs")
	for name, c := range map[string]struct {
		archive []byte
		want    error
	}{
		"nothing":                  {nil, ErrNone},
		"a text":                   {[]byte("SQLite format 3\x00 and more"), ErrNone},
		"a newer one":              {made(t, map[string]any{"format": 2, "version": "9.9.9", "files": "of another form"}), ErrNewer},
		"a name above the folder":  {made(t, x("../theirs"), entry{"../theirs", "x"}), ErrDamaged},
		"an absolute name":         {made(t, x(outside), entry{outside, "x"}), ErrDamaged},
		"a file twice":             {made(t, x("a", "a"), entry{"a", "x"}, entry{"a", "x"}), ErrDamaged},
		"another file":             {made(t, x("a"), entry{"b", "x"}), ErrDamaged},
		"another size":             {made(t, x("a"), entry{"a", "xx"}), ErrDamaged},
		"other bytes":              {made(t, x("a"), entry{"a", "y"}), ErrDamaged},
		"a file too few":           {made(t, x("a", "b"), entry{"a", "x"}), ErrCut},
		"a file too many":          {made(t, x("a"), entry{"a", "x"}, entry{"b", "x"}), ErrDamaged},
		"a manifest of other form": {made(t, []int{1}), ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(t.Context(), bytes.NewReader(c.archive), t.TempDir(), nil); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if _, err := os.Stat(outside); err == nil {
				t.Error("a file is written outside")
			}
		})
	}
	if _, err := Read(t.Context(), bytes.NewReader(made(t, x("a"), entry{"a", "x"})), t.TempDir(), nil); err != nil {
		t.Errorf("the sound one: %v", err)
	}
}

func TestAFolderInUseIsCopiedWithoutWhatIsSkipped(t *testing.T) {
	from := folder(t, map[string]string{"tidemill.db": "x", "api.token": "s3cret", "logs/today": "a line\n", "copy/part": "x"})
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "logs", "link")); err != nil {
		t.Skip(err)
	}
	to := t.TempDir()
	left, err := Stage(from, to, func(name string) bool { return name == "tidemill.db" || name == "copy" })
	if err != nil || fmt.Sprint(left) != "[logs/link]" {
		t.Errorf("left out: %v, %v", left, err)
	}
	if got, want := filesIn(t, to), map[string]string{"api.token": "s3cret", "logs/today": "a line\n"}; !maps.Equal(got, want) {
		t.Errorf("copied: %v, want %v", got, want)
	}
	if err := Sync(to); err != nil {
		t.Error(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	dir := folder(b, map[string]string{"tidemill.db": strings.Repeat(`{"event":"viewed","properties":{"path":"/a"}}`, 1<<20)})
	b.SetBytes(45 << 20)
	for b.Loop() {
		if err := Write(b.Context(), discard{}, dir, Manifest{}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
