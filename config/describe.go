package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// lists are the settings that are lists of groups, with what an element is made of.
var lists = []struct {
	path string
	of   reflect.Type
	more func() []string // lines about what its expressions have, and the like; nil: none
}{
	{"projects", reflect.TypeFor[Project](), nil},
	{"delivery.sites", reflect.TypeFor[Site](), nil},
	{"delivery.queues", reflect.TypeFor[Rule](), nil},
	{"delivery.partners", reflect.TypeFor[partner.Partner](), aboutPartners},
	{"crm.tenants", reflect.TypeFor[CRMTenant](), nil},
	{"crm.handlers", reflect.TypeFor[CRMHandler](), nil},
	{"windows.processors", reflect.TypeFor[WindowsProcessor](), nil},
}

// aboutPartners are the presets, and the functions of expressions.
func aboutPartners() []string {
	all := []string{"presets: " + strings.Join(partner.Presets(), ", "), "functions of when, mapping, success and outcomes, beside those of the language (expr-lang.org):"}
	for _, f := range partner.Functions {
		all = append(all, "  "+f.Form+": "+f.Help)
	}
	return all
}

// Part is a setting of the elements of a list.
type Part struct {
	Path string // delivery.partners[].auth.type
	Form string // what it is written like, in words
	Help string
}

// PartsOf lists the settings of the elements of lists that a name is of, as ReferenceOf does.
func PartsOf(name string) (all []Part) {
	for _, l := range lists {
		for _, p := range partsOf(l.path+"[]", l.of) {
			if p.is(name) {
				all = append(all, p)
			}
		}
	}
	return all
}

// is says whether a name is the setting's, or that of a group or list that it is in.
func (p *Part) is(name string) bool {
	plain := func(path string) string { return strings.ReplaceAll(path, "[]", "") }
	path := plain(p.Path)
	return name == "" || path == plain(name) || strings.HasPrefix(path, plain(name)+".")
}

func partsOf(path string, t reflect.Type) (all []Part) {
	for _, m := range membersOf(t) {
		p := Part{path + "." + m.name, formOf(m.of), m.field.Tag.Get("help")}
		of, below := m.of, p.Path
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct && !isText(of.Elem()) {
			of, below = of.Elem(), below+"[]"
		}
		all = append(all, p)
		if of.Kind() == reflect.Struct && !isText(of) {
			all = append(all, partsOf(below, of)...)
		}
	}
	return all
}

// describe writes the settings of the elements of lists as remarks: of a list, or of a group or
// setting in one. It says whether there are any.
func describe(w io.Writer, name, indent string) (bool, error) {
	var b strings.Builder
	for _, l := range lists {
		var lines []string
		for _, p := range partsOf(l.path+"[]", l.of) {
			if p.is(name) {
				line := strings.TrimPrefix(p.Path, l.path+"[].") + ": " + p.Help
				if p.Help == "" {
					line = strings.TrimSuffix(line, ": ") + ": " + p.Form
				} else if form := p.Form; !strings.Contains(form, "{") && form != "a text" {
					line += " (" + form + ")"
				}
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s# each of %s has:\n", indent, l.path)
		if l.more != nil && (l.path == name || strings.HasPrefix(l.path, name+".")) {
			lines = append(lines, l.more()...)
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "%s#   %s\n", indent, line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return b.Len() > 0, err
}

// deliveryLists shows what the lists of the group delivery hold, in the file that init writes.
const deliveryLists = `  # sites, their keys and limits; with none, the projects are the sites
  #sites:
  #  - id: shop                        # what its events have as siteId
  #    keys_env: [SHOP_KEY]            # keys in variables, or in files that SHOP_KEY_FILE names; or keys: […], or keys_sha256: […]
  #    public: true                    # browsers may send to /collect without a key
  #    origins: [https://shop.example]
  # which queue of the door takes which events; the first that holds
  #queues:
  #  - {when: 'event.eventType == "add_to_cart"', queue: low}
  # partners that events are delivered to
  #partners:
  #  - name: mine
  #    endpoint: https://partner.example/events
  #    auth: {type: bearer, credentials: PARTNER_TOKEN}   # a variable, or a file that PARTNER_TOKEN_FILE names
  #    when: event.eventType == "purchase"
  #    mapping:
  #      - {field: id, value: event.eventId, required: true}
  #      - {field: user.email, value: email_hash(event.properties?.email)}
  #    dedup: id
  #    outcomes:
  #      - {when: status == 409, kind: delivered, why: it has it already}
`
