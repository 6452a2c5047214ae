package deploy_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/tidemill/tidemill/systems"
)

// host is the name of a server in an address, as services have them in their environment.
var host = regexp.MustCompile(`(?:^|//|@)([a-z]+):\d+`)

// Every system is a service with a profile of its own, which starts the servers that it names.
func TestComposeStartsTheServersThatASystemNames(t *testing.T) {
	all := services(t, nil)
	for _, name := range systems.All().Names() {
		s, ok := all[name]
		if !ok || !slices.Equal(s.Profiles, []string{name}) {
			t.Errorf("the system %s is no service with its own profile: %q", name, s.Profiles)
		}
		named := map[string]bool{}
		for variable, value := range s.Environment {
			for _, m := range host.FindAllStringSubmatch(fmt.Sprint(value), -1) {
				named[m[1]] = true
				if _, waits := s.DependsOn[m[1]]; !waits || !slices.Contains(all[m[1]].Profiles, name) {
					t.Errorf("%s names %s in %s, and does not wait for it, or its profile does not start it", name, m[1], variable)
				}
			}
		}
		for server := range s.DependsOn {
			if !named[server] {
				t.Errorf("%s waits for %s and has no address of it", name, server)
			}
		}
	}
}

// Ours and those of others have a limit of memory; ours write to their volume alone.
func TestComposeConfinesEveryService(t *testing.T) {
	for name, s := range services(t, nil) {
		if s.Deploy.Resources.Limits.Memory == "" {
			t.Errorf("%s may take all memory", name)
		}
		ours := name == "embedded" || systems.All().Has(name) == nil
		if ours && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s has capabilities %q dropped, read-only %t", name, s.CapDrop, s.ReadOnly)
		}
	}
}
