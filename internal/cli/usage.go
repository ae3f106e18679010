package cli

import (
	"fmt"
	"slices"

	"dibs/internal/api"

	"github.com/spf13/cobra"
)

// usedFlag is --usage: what was used for a task.
type usedFlag struct{ api.Used }

func (f *usedFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "usage", "what was used for the task since it was claimed, in all: `tokens=N,usd=X`, or one of them")
}

// Set implements pflag.Value.
func (f *usedFlag) Set(text string) (err error) {
	f.Usage, err = api.ParseUsage(text)
	return err
}

// String implements pflag.Value.
func (f *usedFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *usedFlag) Type() string { return "usage" }

// spent formats what was used; a dash for nothing.
func spent(u *api.Usage) string {
	if u == nil {
		return "-"
	}
	return u.String()
}

// spending returns what was used for a claim as the end of a sentence; empty for nothing.
func spending(c api.Claim) string {
	if c.Usage == nil {
		return ""
	}
	return fmt.Sprintf(", used %v", c.Usage)
}

// anyUsed reports whether anything was used of a list.
func anyUsed[T any](list []T, of func(T) *api.Usage) bool {
	return slices.ContainsFunc(list, func(one T) bool { return of(one) != nil })
}
