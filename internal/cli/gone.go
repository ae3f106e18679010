package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// gone has the commands and flags that dibs no longer has, and what to do instead. They are usage
// errors.
var gone = map[string]string{
	"history":          "use dibs report; with --json it has each day, and with --days 1 each hour",
	"demo --board":     "on a terminal the demo keeps the board open until a key is pressed, and --keep does elsewhere",
	"demo --machines":  "set journal.postgres for several daemons, see docs/cluster.md",
	"demo --postgres":  "set journal.postgres for several daemons, see docs/cluster.md",
	"simulate --plot":  "draw the figures that --json prints",
	"simulate --story": "docs/how-a-claim-works.md shows a race, request by request",
}

// refuseGone adds the flags that are gone, out of sight, so that flagError can refuse them.
func refuseGone(root *cobra.Command) {
	for what := range gone {
		name, flag, isFlag := strings.Cut(what, " --")
		for _, cmd := range root.Commands() {
			if isFlag && cmd.Name() == name {
				cmd.Flags().Var(goneFlag{}, flag, "")
				cmd.Flags().Lookup(flag).NoOptDefVal = "true"
				cmd.Flags().Lookup(flag).Hidden = true
			}
		}
	}
}

// goneFlag is a flag that cannot be set.
type goneFlag struct{}

func (goneFlag) Set(string) error { return errors.New("gone") }
func (goneFlag) String() string   { return "" }
func (goneFlag) Type() string     { return "" }
