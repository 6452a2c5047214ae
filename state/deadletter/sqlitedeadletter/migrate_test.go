package sqlitedeadletter

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
)

// What the first version wrote of the letter below.
const (
	firstHistory = "X'010180A8A8949567060C616E73776572656420353030031378C21B14100C31'"
	firstMessage = "X'010904747970650171016B80A9A19A0D07FFDB8FF9CE030001020102030401016E0176'"
	firstSum     = "-4210421308340866733"
)

// A file of the first version, with a letter as that version wrote it: its message, its
// history and its checksum are bytes that must stay readable.
func TestAFileOfTheFirstVersionIsReadAndItsLettersEdited(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Migrate(t.Context(), "deadletter", schema[:1]); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec(`INSERT INTO deadletter(seq,pipeline,tenant,id,shard,hi,lo,kind,first,last,deaths,history)
			VALUES(1, CAST('p' AS BLOB), CAST('t' AS BLOB), CAST('id' AS BLOB), 1, 3, 4, 6, 1772366400000, 1772366400000, 1, ` + firstHistory + `)`)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO deadletter_body VALUES(1, ` + firstMessage + `, CAST('payload' AS BLOB), CAST('row' AS BLOB), ` + firstSum + `)`); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE deadletter_seq SET newest=1"); err != nil {
			return err
		}
		return books{put: 1}.add(tx, "p")
	}); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), db, deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	one := func() (found *deadletter.Letter) {
		t.Helper()
		for l, err := range s.List(t.Context(), deadletter.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			found = l
		}
		return found
	}
	if l := one(); l.Damaged != "" || string(l.Payload) != "payload" || string(l.Row) != "row" || l.Cause != "answered 500" || l.Type != "type" || !l.Edited.IsZero() {
		t.Errorf("read as %+v", l)
	}
	if err := s.Edit(t.Context(), deadletter.Name{Pipeline: "p", Tenant: "t", ID: "id"}, []byte("mended")); err != nil {
		t.Fatal(err)
	}
	if l := one(); l.Damaged != "" || string(l.Payload) != "mended" || string(l.Original) != "payload" || l.Edited.IsZero() {
		t.Errorf("after the edit %+v", l)
	}
	if n, err := s.Replay(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	m := []*tidemill.Message{{}}
	if n, err := s.Open("p").Receive(t.Context(), m); n != 1 || err != nil || string(m[0].Payload) != "mended" {
		t.Errorf("received %d, %v, %q", n, err, m[0].Payload)
	}
}
