package docs

import (
	"strings"
	"testing"
)

func TestAPageIsReadAsItsReaderDoes(t *testing.T) {
	page := strings.Join([]string{
		"# Title", "", "<!-- docs: session redis -->", "Text.", "",
		"<!-- docs: file a.yaml -->", "```yaml", "a: 1", "```", "",
		"<!-- docs: any order -->", "<!-- docs: kill tidemill run after 1s -->",
		"```console", "$ curl -d '{", `  "a": "it"}' \`, "    http://h   # the server's", "one", "", "two", "", "$ next", "```",
		"- in a list", "  ```console", "  $ third", "  its output", "  ```",
		"<!-- docs: setup cat >f <<'END'", "$ not a command", "END", "-->",
		"<!-- docs: skip it takes a cluster -->", "```console", "$ fourth", "```",
	}, "\n")
	found, err := steps(page)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range found {
		got = append(got, s.kind+"|"+s.name+"|"+s.text+"|"+strings.Join(s.output, "/"))
	}
	want := []string{
		"session|redis||", "file|a.yaml|a: 1\n|",
		"command||curl -d '{\n  \"a\": \"it\"}' \\\n    http://h   # the server's|one//two", "command||next|",
		"command||third|its output", "setup|cat >f <<'END'\n$ not a command\nEND|cat >f <<'END'\n$ not a command\nEND|",
		"skip|it takes a cluster|it takes a cluster|",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	if c := found[2]; !c.anyOrder || c.kill != "tidemill run" || c.killAfter != "1s" || c.line != 14 || c.at != 17 {
		t.Errorf("the comments of a block are not read: %+v", c)
	}
	if c := found[3]; !c.anyOrder || c.kill != "" {
		t.Errorf("a kill is for the first command of its block only: %+v", c)
	}
}

func TestAPageThatCannotBeRunIsRefused(t *testing.T) {
	for name, page := range map[string]string{
		"no command":              "```console\nan output\n```",
		"an unknown comment":      "<!-- docs: sometimes -->\n```console\n$ a\n```",
		"a comment without block": "<!-- docs: any order -->\nText.",
		"no reason":               "<!-- docs: skip -->\n```console\n$ a\n```",
		"a program nobody runs":   "```go\nfunc main() {}\n```",
		"a comment that is open":  "<!-- docs: skip it takes\n```console\n$ a\n```",
	} {
		if found, err := steps(page); err == nil {
			t.Errorf("%s is taken: %+v", name, found)
		}
	}
}

func TestWhatIsPrintedIsAsThePageShowsIt(t *testing.T) {
	const a, b = "f0d0bedc-ce50-5f92-9e38-1e4476bc16ac", "01a1ff05-e111-73e3-a352-098e4ce44f0f"
	const c, d = "5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01", "01a2008c-5f13-7dd0-ba2e-c36f4ca241ea"
	for name, x := range map[string]struct {
		want, got string
		marks     marks
		same      bool
	}{
		"the same":                     {"3 accepted", "3 accepted", marks{}, true},
		"another number":               {"3 accepted", "4 accepted", marks{}, false},
		"numbers that vary":            {"3 accepted, 5.5%", "4 accepted, 7%", marks{numbersVary: true}, true},
		"another word":                 {"3 accepted", "3 refused", marks{numbersVary: true}, false},
		"a line more":                  {"one", "one\ntwo", marks{}, false},
		"a line less":                  {"one\ntwo", "one", marks{}, false},
		"progress of what takes long":  {"3 accepted", "86465 events, 7938/s\n3 accepted", marks{}, true},
		"any lines":                    {"one\n…\nfour", "one\ntwo\nthree\nfour", marks{}, true},
		"any lines, the last missing":  {"one\n…\nfour", "one\ntwo\nthree", marks{}, false},
		"any text":                     {"ask http://h: …", "ask http://h: EOF", marks{}, true},
		"any text, begun otherwise":    {"ask http://h: …", "asked http://h: EOF", marks{}, false},
		"times":                        {"at 2026-11-21T10:38:10.473Z", "at 2027-01-02T03:04:05Z", marks{}, true},
		"durations":                    {"up 15s, 3.1s ago", "up 1h2m3s, 400ms ago", marks{}, true},
		"versions and ports":           {"go1.26.8 at 127.0.0.1:8484", "go1.27.1 at 127.0.0.1:40123", marks{}, true},
		"keys":                         {"tm_YNN1yMJ2PA3VQiAspfPlQBKQlQt5KSBy", "tm_E4zRnWNawifJ3P3uRCK_U1kFZ2MkNx-R", marks{}, true},
		"windows":                      {"monday/1795328334884 7", "monday/1795440680748 7", marks{}, true},
		"columns of another width":     {"a    1   ", "a  1", marks{}, true},
		"ids":                          {a + " and " + b, c + " and " + d, marks{}, true},
		"an id twice, in the page":     {a + " and " + a, c + " and " + d, marks{}, false},
		"an id twice, in the output":   {a + " and " + b, c + " and " + c, marks{}, false},
		"another order":                {"one\ntwo", "two\none", marks{}, false},
		"any order":                    {"one\ntwo", "two\none", marks{anyOrder: true}, true},
		"any order, and one not there": {"one\ntwo", "two\nthree", marks{anyOrder: true}, false},
	} {
		err := compare(strings.Split(x.want, "\n"), strings.Split(x.got, "\n"), x.marks)
		if (err == nil) != x.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}
