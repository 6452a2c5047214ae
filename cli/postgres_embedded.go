//go:build embedded

package cli

import "github.com/tidemill/tidemill/connect/system"

type postgresCmd struct{}

func (postgresCmd) Run() error { return system.LeftOut("PostgreSQL") }
