package rehearse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Difference is where two ends differ.
type Difference struct {
	At   string `json:"at"`             // the place of the end, such as partner ads
	Path string `json:"path,omitempty"` // in the output; empty: the end itself
	Want string `json:"want"`
	Is   string `json:"is"`
}

// Where is the place, and the path in its output.
func (d *Difference) Where() string {
	if d.Path == "" {
		return d.At
	}
	return d.At + ", " + d.Path
}

// none stands for what is not there.
const none = "nothing"

// shownBytes is how much of a value a difference shows.
const shownBytes = 300

// values calls differ with the path of each value that is not the same in two JSON texts. Numbers are
// compared by their value, however they are written, and objects without their order.
func values(want, is []byte, differ func(path, want, is string)) error {
	a, err := decode(want)
	if err != nil {
		return err
	}
	b, err := decode(is)
	if err != nil {
		return err
	}
	compare("", a, b, differ)
	return nil
}

func decode(b []byte) (v any, err error) {
	if b == nil {
		return missing{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// missing is a value that is not there.
type missing struct{}

func compare(path string, a, b any, differ func(path, want, is string)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			members(path, x, y, differ)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			elements(path, x, y, differ)
			return
		}
	case json.Number:
		if y, ok := b.(json.Number); ok && sameNumber(string(x), string(y)) {
			return
		}
	default:
		if a == b {
			return
		}
	}
	differ(path, show(a), show(b))
}

func members(path string, a, b map[string]any, differ func(path, want, is string)) {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		compare(strings.TrimPrefix(path+"."+name, "."), of(a, name), of(b, name), differ)
	}
}

func of(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return missing{}
}

func elements(path string, a, b []any, differ func(path, want, is string)) {
	for i := range max(len(a), len(b)) {
		var x, y any = missing{}, missing{}
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		compare(path+"["+strconv.Itoa(i)+"]", x, y, differ)
	}
}

// sameNumber compares exactly: the ids of events may be larger than a float holds. A number whose
// exponent is huge is compared as it is written.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	const digits = 400
	if len(a) > digits || len(b) > digits || exponent(a) > digits || exponent(b) > digits {
		return false
	}
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok && ok2 && x.Cmp(y) == 0
}

func exponent(n string) int {
	_, e, found := strings.Cut(strings.ToLower(n), "e")
	if !found {
		return 0
	}
	v, err := strconv.Atoi(strings.TrimLeft(e, "+-"))
	if err != nil {
		return 1 << 30
	}
	return v
}

func show(v any) string {
	if _, not := v.(missing); not {
		return none
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	text := strings.TrimSpace(b.String())
	if len(text) > shownBytes {
		return strings.ToValidUTF8(text[:shownBytes], "") + "…"
	}
	return text
}
