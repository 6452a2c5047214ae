package config

// Value is the setting's value.
func (f *Field) Value() any { return f.value.Interface() }

// Words are those that the setting may be; none: any.
func (f *Field) Words() []string { return f.limits.of }
