package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
)

// tea is a system that nobody has: what config does for systems, it does for any.
type tea struct {
	Cups   int           `yaml:"cups" env:"TEA_CUPS" default:"2" range:"[1,9]" help:"cups in a pot"`
	Wait   time.Duration `yaml:"wait" env:"TEA_WAIT" default:"3m" range:"(0,)" help:"time that it draws"`
	Log    teaLog        `yaml:"log"`
	Leaves []leaf        `yaml:"leaves" help:"what is in the pot"`

	c *config.Loaded
}

type teaLog struct {
	Level  string `yaml:"level" default:"info" of:"debug|info" help:"the least level"`
	Format string `yaml:"format" default:"json" of:"text|json" help:"how it is written"`
}

type leaf struct {
	Name string `yaml:"name" help:"of the leaf"`
}

func (t *tea) Check() error {
	k := config.NewChecker(t.c, "tea")
	k.Limits()
	if k.Readable("cups", "wait") && t.Cups > 4 && t.Wait < time.Minute {
		k.Fail("wait", "%v is too short for %s", t.Wait, k.Place("cups"))
	}
	for i, l := range t.Leaves {
		if l.Name == "" {
			k.Add(errors.New(t.c.Element("tea.leaves", i) + ": a leaf without a name"))
		}
	}
	return k.Err()
}

func (t *tea) Configured() bool               { return t.Cups > 2 }
func (t *tea) Example() string                { return "  #leaves: [{name: mint}]\n" }
func (t *tea) Warnings() []string             { return []string{"tea.wait: it is hot"} }
func (t *tea) OwnLog() (l config.Log, _ bool) { return config.Log(t.Log), t.Cups > 2 }

func teaOf(late bool) config.Schema {
	return config.Schema{{Name: "tea", New: func(c *config.Loaded) config.Settings { return &tea{c: c} }, Unit: time.Second, Late: late}}
}

func TestASystemBringsItsSettings(t *testing.T) {
	c, err := teaOf(false).Load(config.Layers{File: file(t, "tea:\n  wait: 90\n  leaves:\n    - {name: mint}\n"), Getenv: env(map[string]string{"TEA_CUPS": "4"})})
	if err != nil {
		t.Fatal(err)
	}
	if is := config.Of[*tea](c); is.Cups != 4 || is.Wait != 90*time.Second || len(is.Leaves) != 1 || c.From["tea.cups"] != "TEA_CUPS" {
		t.Errorf("%+v", is)
	}
	if !c.Configured("tea") || c.Configured("coffee") {
		t.Error("what is configured is not said")
	}
	if all := c.Warnings(nil); !slices.Equal(all, []string{"tea.wait: it is hot"}) {
		t.Errorf("warnings %q", all)
	}
	if with, without := c.LogOf([]string{"tea"}), c.LogOf(nil); with.Format != "json" || without.Format != "text" {
		t.Errorf("the log is %v with tea, %v without", with, without)
	}
	var ref, shown strings.Builder
	if err := errors.Join(teaOf(false).WriteReference(&ref), c.Write(&shown)); err != nil {
		t.Fatal(err)
	}
	for text, in := range map[string]string{
		"tea:\n  # cups in a pot\n  # allowed: 1 to 9\n  # environment: TEA_CUPS\n  #cups: 2\n": ref.String(), "  #leaves: [{name: mint}]\n  # each of tea.leaves has:\n": ref.String(),
		"tea:\n  # from TEA_CUPS\n  cups: 4\n": shown.String(), "# tea.leaves, number 1, from ": shown.String(),
	} {
		if !strings.Contains(in, text) {
			t.Errorf("%q is not in\n%s", text, in)
		}
	}
}

func TestMistakesOfASystem(t *testing.T) {
	text := "tea:\n  cups: many\n  wait: 0\n  leaves:\n    - {}\n"
	c, err := teaOf(true).Load(config.Layers{File: file(t, text)})
	if err != nil {
		t.Fatalf("who does not run it is disturbed: %v", err)
	}
	err = config.Of[*tea](c).Check()
	for _, want := range []string{`:2: tea.cups: "many" is not a whole number; allowed: 1 to 9`, `:3): invalid value "0s"; allowed: more than 0`, ":5: tea.leaves: a leaf without a name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if _, err := teaOf(false).Load(config.Layers{File: file(t, text)}); err == nil || !strings.Contains(err.Error(), ":2: tea.cups") {
		t.Errorf("at loading: %v", err)
	}
	if _, err := teaOf(false).Load(config.Layers{File: file(t, "tea:\n  cups: 5\n  wait: 1\n")}); err == nil || !strings.Contains(err.Error(), "1s is too short for tea.cups (from ") {
		t.Errorf("two that do not go together: %v", err)
	}
}
