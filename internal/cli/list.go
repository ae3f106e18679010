package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// list is the answer of a command that lists things: one document with --json, a table for people.
type list[T any] struct {
	document any
	items    []T
	columns  []column[T]
	empty    string // what people read if there are no items
	left     int    // how many items --limit left out
}

// column is a column of a list. Names are those of all columns, or of none.
type column[T any] struct {
	name  string
	cell  func(T) cell
	whole bool // a narrow terminal cuts the others first
	hide  bool // there is nothing to show in it
	right bool // it has numbers
}

// print prints the list.
func (l list[T]) print(a *app) error {
	if a.json {
		return writeJSON(a.stdout, l.document)
	}
	if len(l.items) == 0 {
		a.say("%s", l.empty)
	}
	_, err := io.WriteString(a.stdout, l.text(a.stdout))
	if l.left > 0 {
		a.say("… and %d more; --limit 0 shows them all", l.left)
	}
	return err
}

// text formats the list for out, as a table; empty without items.
func (l list[T]) text(out io.Writer) string {
	if len(l.items) == 0 {
		return ""
	}
	var t table
	var names []string
	var shown []column[T]
	for _, c := range l.columns {
		if c.hide {
			continue
		}
		if c.whole {
			t.whole = len(shown)
		}
		shown = append(shown, c)
		t.right = append(t.right, c.right)
		if c.name != "" {
			names = append(names, c.name)
		}
	}
	if len(names) > 0 {
		t.head(names...)
	}
	for _, item := range l.items {
		cells := make([]cell, len(shown))
		for i, c := range shown {
			cells[i] = c.cell(item)
		}
		t.add(cells...)
	}
	return t.layout(width(out), coloured(out))
}

// defaultLimit is how many items of a list people see without --limit.
const defaultLimit = 50

// limitFlag is --limit: how many items a list has at most; 0 for all.
type limitFlag struct{ most int }

func (f *limitFlag) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.most, "limit", 0, fmt.Sprintf("at most that many (0: all; not given: %d, or all with --json)", defaultLimit))
}

func (f *limitFlag) check() error {
	if f.most < 0 {
		return usagef("--limit %d: want 0 or more", f.most)
	}
	return nil
}

// limited returns the items that --limit shows, and how many it leaves out.
func limited[T any](a *app, cmd *cobra.Command, f limitFlag, items []T) (shown []T, left int) {
	if !a.json && !cmd.Flags().Changed("limit") {
		f.most = defaultLimit
	}
	if f.most == 0 || len(items) <= f.most {
		return items, 0
	}
	return items[:f.most], len(items) - f.most
}
