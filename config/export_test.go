package config

import (
	"reflect"

	"github.com/tidemill/tidemill"
)

// Value is the setting's value.
func (f *Field) Value() any { return f.value.Interface() }

// Words are those that the setting may be; none: any.
func (f *Field) Words() []string { return f.limits.of }

// Alter gives a setting another value than it has.
func Alter(c *Loaded, path string) {
	for _, f := range c.Fields() {
		if f.Path != path {
			continue
		}
		switch v := f.value; v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Float64:
			v.SetFloat(v.Float() + 1)
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Slice:
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		default:
			v.Set(reflect.ValueOf(tidemill.NewSecret("x")))
		}
	}
}
