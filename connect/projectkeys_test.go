package connect

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems"
)

// TestANewShortKeyIsNotTakenWhereOthersCanGuessIt has keys of 6 and of 16 characters.
func TestANewShortKeyIsNotTakenWhereOthersCanGuessIt(t *testing.T) {
	c := settings(t, "admin.key", "the-token-0123456789")
	try := func(listen string, projects ...config.Project) error {
		c.Listen, c.Projects = listen, projects
		in, err := Open(t.Context(), systems.All(), c, Options{})
		if err != nil {
			return err
		}
		return in.Close()
	}
	named := func(name, key string) config.Project {
		return config.Project{Name: name, Key: tidemill.NewSecret(key)}
	}
	short, long := named("old", "canary"), named("old", "0123456789abcdef")
	for _, listen := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0"} {
		err := try(listen, long, short)
		if err == nil || !strings.Contains(err.Error(), `project "old": its new key has 6 characters, and `+listen+" can be reached from other machines: use 16 or more") || strings.Contains(err.Error(), "canary") {
			t.Errorf("a new short key on %s: %v", listen, err)
		}
	}
	if err := try("127.0.0.1:0", short); err != nil {
		t.Errorf("on this machine: %v", err)
	}
	// It is in use since then.
	if err := try("0.0.0.0:0", short, long); err != nil {
		t.Errorf("an old short key: %v", err)
	}
	if all := c.Warnings(nil); len(all) != 1 || !strings.Contains(all[0], "a key of project old has 6 characters, which can be guessed") {
		t.Errorf("of the old one it warns: %q", all)
	}
	if err := try("0.0.0.0:0", short, named("new", "canary2")); err == nil || !strings.Contains(err.Error(), `project "new"`) {
		t.Errorf("another new short key: %v", err)
	}
}
