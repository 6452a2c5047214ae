package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
)

// runFlags are the flags of tidemill run that settings of systems name: a struct for kong, made of
// them. A flag that is not given is nil, so that it overrides nothing.
type runFlags struct {
	fields []config.Field
	values reflect.Value // of the struct, its fields in the order of fields
}

func newRunFlags(table system.Table) *runFlags {
	b := &runFlags{}
	var members []reflect.StructField
	for _, f := range table.Settings().Reference() {
		if f.Flag == "" {
			continue
		}
		group := strings.Split(f.Path, ".")
		tag := fmt.Sprintf(`name:%q hidden:"" group:%q help:%q placeholder:"…"`, f.Flag, strings.ToUpper(group[0][:1])+group[0][1:]+", "+group[1]+":", flagHelp(&f))
		t := reflect.TypeFor[*string]()
		switch {
		case f.Bool():
			t, tag = reflect.TypeFor[*bool](), tag+` negatable:""`
		case f.List():
			t, tag = reflect.TypeFor[[]string](), tag+` sep:"none"`
		}
		b.fields = append(b.fields, f)
		members = append(members, reflect.StructField{Name: fmt.Sprintf("F%d", len(members)), Type: t, Tag: reflect.StructTag(tag)})
	}
	b.values = reflect.New(reflect.StructOf(members))
	return b
}

// flagHelp is a setting's help as a sentence, with its default and variable.
func flagHelp(f *config.Field) string {
	help := strings.ToUpper(f.Help[:1]) + f.Help[1:] + "."
	if f.Default != "" {
		help += " Default: " + f.Default + "."
	}
	return strings.ReplaceAll(help, "$", "$$") + " (" + strings.Join(f.Env, ", ") + ")"
}

// plugins gives the flags to kong.
func (b *runFlags) plugins() kong.Plugins { return kong.Plugins{b.values.Interface()} }

// each calls do with the flags that were given, and their text.
func (b *runFlags) each(do func(f *config.Field, text string)) {
	for i := range b.fields {
		switch v := b.values.Elem().Field(i).Interface().(type) {
		case *string:
			if v != nil {
				do(&b.fields[i], *v)
			}
		case *bool:
			if v != nil {
				do(&b.fields[i], fmt.Sprint(*v))
			}
		case []string:
			if len(v) > 0 {
				do(&b.fields[i], strings.Join(v, ","))
			}
		}
	}
}

// given are the flags that were given, by the paths of their settings.
func (b *runFlags) given() map[string]string {
	m := map[string]string{}
	b.each(func(f *config.Field, text string) { m[f.Path] = text })
	return m
}

// check refuses flags of systems that do not run.
func (b *runFlags) check(running []string) error {
	var names []string
	of := ""
	b.each(func(f *config.Field, _ string) {
		if s := f.Group(); !slices.Contains(running, s) && (of == "" || of == s) {
			names, of = append(names, "--"+f.Flag), s
		}
	})
	if of == "" {
		return nil
	}
	return command.UsageError{Err: fmt.Errorf("%s: a flag of %s, which does not run here: tidemill run %s runs it", strings.Join(names, ", "), of, of)}
}

// help prints help. The flags of a system are many: tidemill run SYSTEM --help alone shows them.
func (b *runFlags) help(o kong.HelpOptions, ctx *kong.Context) error {
	if n := ctx.Selected(); n != nil && n.Name == "run" {
		for _, f := range n.Flags {
			if i := slices.IndexFunc(b.fields, func(of config.Field) bool { return of.Flag == f.Name }); i >= 0 && slices.Contains(ctx.Args, b.fields[i].Group()) {
				f.Hidden = false
			}
		}
	}
	return kong.DefaultHelpPrinter(o, ctx)
}
