package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// step is one thing that a page makes a reader, or the runner, do.
type step struct {
	line   int    // of the page, from 1
	kind   string // "command", "file", "node", "go", "prints", "session", "setup", "stop", "skip"
	text   string // the command, the file's content, the program, the reason
	name   string // of a file; of the command that prints or stops
	output []string
	at     int    // line of the page where the output begins, or would begin
	indent string // of its block
	marks         // of its block
}

// fails reports whether the page shows that a command fails.
func (s step) fails() bool { return len(s.output) > 0 && strings.HasPrefix(s.output[0], "tidemill: ") }

// marks are the comments' settings for all commands of a block.
type marks struct {
	anyOrder    bool
	numbersVary bool
	kill        string // the command that is killed meanwhile
	killAfter   string
	outputShown bool
}

var (
	fence   = regexp.MustCompile("^( *)```(\\w*)\\s*$")
	comment = regexp.MustCompile(`(?s)<!-- docs:\s(.*?)\s-->`)
)

// steps reads a page. It refuses a console block without a command, and an unknown comment.
func steps(page string) ([]step, error) {
	var found []step
	lines := strings.Split(page, "\n")
	var before []step // the comments before a block
	for i := 0; i < len(lines); i++ {
		if strings.Contains(lines[i], "<!-- docs:") {
			text, first := lines[i], i
			for !strings.Contains(text, "-->") && i+1 < len(lines) {
				i++
				text += "\n" + lines[i]
			}
			of := comment.FindAllStringSubmatch(text, -1)
			if len(of) != strings.Count(text, "<!-- docs:") {
				return nil, fmt.Errorf("line %d: a comment that cannot be read: %s", first+1, text)
			}
			for _, m := range of {
				s, err := parseComment(m[1], first+1)
				if err != nil {
					return nil, err
				}
				if slices.Contains([]string{"session", "setup", "stop", "gdelt"}, s.kind) {
					found = append(found, s)
				} else {
					before = append(before, s)
				}
			}
			continue
		}
		m := fence.FindStringSubmatch(lines[i])
		if m == nil {
			if strings.TrimSpace(lines[i]) != "" && len(before) > 0 {
				return nil, fmt.Errorf("line %d: the comment of line %d stands before no block", i+1, before[0].line)
			}
			continue
		}
		indent, language, first := m[1], m[2], i+1
		var block []string
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			block = append(block, strings.TrimPrefix(lines[i], indent))
		}
		of, err := blockSteps(language, block, first+1, before)
		if err != nil {
			return nil, err
		}
		for k := range of {
			of[k].indent = indent
		}
		found, before = append(found, of...), nil
	}
	return found, nil
}

func parseComment(text string, line int) (step, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	s := step{line: line, kind: word, name: strings.TrimSpace(rest)}
	switch word {
	case "skip", "file", "go", "prints", "stop", "setup", "gdelt":
		if s.name == "" {
			return s, fmt.Errorf("line %d: docs: %s says nothing more", line, word)
		}
		s.text = s.name
	case "node", "session":
	case "any", "numbers":
		s.kind = strings.TrimSpace(text)
		if s.kind != "any order" && s.kind != "numbers vary" {
			return s, fmt.Errorf("line %d: unknown comment %q", line, text)
		}
	case "kill":
		var ok bool
		if s.name, s.text, ok = strings.Cut(s.name, " after "); !ok {
			return s, fmt.Errorf("line %d: want kill COMMAND after TIME", line)
		}
	default:
		return s, fmt.Errorf("line %d: unknown comment %q", line, text)
	}
	return s, nil
}

// blockSteps are the steps of a block, with the comments before it.
func blockSteps(language string, block []string, line int, before []step) ([]step, error) {
	var of marks
	for _, c := range before {
		switch c.kind {
		case "skip":
			return []step{c}, nil
		case "file", "node", "go":
			return []step{{line: line, kind: c.kind, name: c.name, text: strings.Join(block, "\n") + "\n"}}, nil
		case "prints":
			return []step{{line: line, at: line, kind: c.kind, name: c.name, output: block, marks: of}}, nil
		case "any order":
			of.anyOrder = true
		case "numbers vary":
			of.numbersVary = true
		case "kill":
			of.kill, of.killAfter = c.name, c.text
		}
	}
	if language != "console" {
		if language == "go" || language == "js" {
			return nil, fmt.Errorf("line %d: a program that is not run or compiled: mark it docs: node, go or skip", line)
		}
		return nil, nil
	}
	return commands(block, line, of)
}

func commands(block []string, line int, of marks) ([]step, error) {
	var found []step
	for i := 0; i < len(block); i++ {
		command, ok := strings.CutPrefix(block[i], "$ ")
		if !ok {
			if len(found) == 0 {
				return nil, fmt.Errorf("line %d: a console block begins with a command, after \"$ \"", line+i)
			}
			last := &found[len(found)-1]
			last.output = append(last.output, block[i])
			if strings.TrimSpace(block[i]) != "" {
				last.outputShown = true
			}
			continue
		}
		s := step{line: line + i, kind: "command", text: command, marks: of}
		for open(s.text) && i+1 < len(block) {
			i++
			s.text += "\n" + block[i]
		}
		of.kill = ""
		s.at = line + i + 1
		found = append(found, s)
	}
	for i := range found {
		found[i].output = trimBlank(found[i].output) // no block has a blank line below a command
	}
	return found, nil
}

// open reports whether a command continues in the next line: a quote is open, or it ends in a
// backslash.
func open(command string) bool {
	var quote rune
	escaped, aside := false, false // aside: in a comment
	before := ' '
	for _, r := range command {
		if aside = aside && r != '\n' || quote == 0 && !escaped && r == '#' && unicode.IsSpace(before); aside {
			continue
		}
		before = r
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		}
	}
	return quote != 0 || escaped
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
