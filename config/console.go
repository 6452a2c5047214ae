package config

import (
	"regexp"
	"strings"
	"time"
)

// Console is the console in the browser, and who comes in there.
type Console struct {
	Enabled     bool     `yaml:"enabled" env:"TIDEMILL_CONSOLE" default:"true" help:"serve the console, at /console/ of listen and admin.listen. It lets nobody in without a user, a token or a link" allow:"true|false"`
	Base        string   `yaml:"base" env:"TIDEMILL_CONSOLE_BASE" help:"what a proxy has before /console/ and takes away, e.g. /tidemill; empty: nothing" allow:"empty, or a path that begins with / and does not end with it"`
	Name        string   `yaml:"name" env:"TIDEMILL_CONSOLE_NAME" default:"Tidemill" help:"the name of this instance, on every page" allow:"1 to 40 characters"`
	Environment string   `yaml:"environment" env:"TIDEMILL_CONSOLE_ENVIRONMENT" help:"the environment beside the name. Where it is production, a change of many asks for its name" allow:"up to 40 characters"`
	Colour      string   `yaml:"colour" env:"TIDEMILL_CONSOLE_COLOUR" default:"grey" help:"colour of the environment, on every page" allow:"grey|blue|green|amber|red|violet" of:"grey|blue|green|amber|red|violet"`
	Hosts       []string `yaml:"hosts" env:"TIDEMILL_CONSOLE_HOSTS" help:"the names that browsers reach the console by, beside localhost and addresses. Others are refused, so that no other name can be made to point here" allow:"host names without a port, separated by commas"`
	Sessions    Sessions `yaml:"sessions"`
	Cover       []string `yaml:"cover" env:"TIDEMILL_CONSOLE_COVER" help:"what the API shows to nobody: a member of payloads, properties, headers, attributes, identities or documents, however deep, e.g. payload.customer.email, headers.authorization" allow:"payload|properties|headers|attributes|identities|document, a dot, and names with dots between; separated by commas"`
	Passwords   bool     `yaml:"passwords" env:"TIDEMILL_CONSOLE_PASSWORDS" default:"true" help:"users log in by name and password" allow:"true|false"`
}

// Sessions are those of the console.
type Sessions struct {
	Idle     time.Duration `yaml:"idle" env:"TIDEMILL_CONSOLE_SESSIONS_IDLE" default:"8h" help:"a session ends when it is not used for so long" allow:"1s to 720h" range:"[1s,720h]"`
	Absolute time.Duration `yaml:"absolute" env:"TIDEMILL_CONSOLE_SESSIONS_ABSOLUTE" default:"24h" help:"a session ends so long after its begin" allow:"1s to 720h" range:"[1s,720h]"`
}

// CoverRoots are what a path of console.cover begins with.
var CoverRoots = []string{"payload", "properties", "headers", "attributes", "identities", "document"}

var (
	basePath  = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)
	hostName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	coverPath = regexp.MustCompile(`^(` + strings.Join(CoverRoots, "|") + `)(\.[^.]+)+$`)
)

// check refuses values that cannot work.
func (c *Console) check(byPath map[string]*Field, ok func(good bool, path string)) {
	all := func(texts []string, of *regexp.Regexp, path string) {
		for _, t := range texts {
			ok(of.MatchString(t), path)
		}
	}
	ok(basePath.MatchString(c.Base), "console.base")
	ok(c.Name != "" && len([]rune(c.Name)) <= 40, "console.name")
	ok(len([]rune(c.Environment)) <= 40, "console.environment")
	all(c.Hosts, hostName, "console.hosts")
	all(c.Cover, coverPath, "console.cover")
	for _, path := range []string{"console.colour", "console.sessions.idle", "console.sessions.absolute"} {
		ok(byPath[path].limits.allow(byPath[path].value), path)
	}
}
