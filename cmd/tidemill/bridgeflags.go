package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
)

// bridgeName is the system that has flags of its own.
const bridgeName = "bridge"

// bridgeFlags are the flags of tidemill run that the settings of the bridge name: a struct
// for kong, made of them. A flag that is not given is nil, so that it overrides nothing.
type bridgeFlags struct {
	fields []config.Field
	values reflect.Value // of the struct, its fields in the order of fields
}

func newBridgeFlags() *bridgeFlags {
	b := &bridgeFlags{}
	var members []reflect.StructField
	for _, f := range connect.Settings().Reference() {
		if f.Flag == "" || !strings.HasPrefix(f.Path, bridgeName+".") {
			continue
		}
		group := strings.Split(f.Path, ".")[1]
		tag := fmt.Sprintf(`name:%q hidden:"" group:%q help:%q placeholder:"…"`, f.Flag, "Bridge, "+group+":", flagHelp(&f))
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
func (b *bridgeFlags) plugins() kong.Plugins { return kong.Plugins{b.values.Interface()} }

// each calls do with the flags that were given, and their text.
func (b *bridgeFlags) each(do func(f *config.Field, text string)) {
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
func (b *bridgeFlags) given() map[string]string {
	m := map[string]string{}
	b.each(func(f *config.Field, text string) { m[f.Path] = text })
	return m
}

// names are the flags that were given.
func (b *bridgeFlags) names() []string {
	var names []string
	b.each(func(f *config.Field, _ string) { names = append(names, "--"+f.Flag) })
	return names
}

// help prints help; the flags of the bridge are many, and shown by tidemill run bridge
// --help alone.
func help(o kong.HelpOptions, ctx *kong.Context) error {
	if n := ctx.Selected(); n != nil && n.Name == "run" && slices.Contains(ctx.Args, bridgeName) {
		for _, f := range n.Flags {
			f.Hidden = false
		}
	}
	return kong.DefaultHelpPrinter(o, ctx)
}
