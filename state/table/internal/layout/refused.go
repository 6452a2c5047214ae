package layout

import "github.com/tidemill/tidemill/state/table"

// Refused is a table that cannot take part in a transaction: every verb returns Err.
type Refused[T any] struct{ Err error }

func (r Refused[T]) Get([]string, ...string) (map[string]*T, error) { return nil, r.Err }
func (r Refused[T]) Page(table.Query[T]) ([]*T, error)              { return nil, r.Err }
func (r Refused[T]) Put([]*T, ...string) error                      { return r.Err }
func (r Refused[T]) Delete([]string) error                          { return r.Err }
func (r Refused[T]) Next(int) (uint64, error)                       { return 0, r.Err }
