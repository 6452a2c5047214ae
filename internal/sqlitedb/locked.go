package sqlitedb

import "fmt"

// LockedError says that another process has the database.
type LockedError struct {
	Path   string
	Holder string // its own description
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by %s: stop it, talk to it with --server, or give another folder with --data", e.Path, e.Holder)
}
