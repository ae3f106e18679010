package emulator

import (
	"cmp"
	"fmt"
	"slices"
)

// MovePage moves a row to another database's first data source, or to the data source with that id,
// as a person can. The row keeps its id, and the values of properties that exist in both places.
func (e *Emulator) MovePage(id, databaseID string) error {
	return e.do(func(tx *tx) error {
		p, err := tx.world.find(id)
		if err != nil {
			return err
		}
		from := tx.world.source(p)
		if from == nil {
			return fmt.Errorf("%s is not a row of a database", id)
		}
		to, err := tx.world.firstSource(databaseID)
		if err == nil && from != to {
			tx.movePage(p, from, to)
		}
		return err
	})
}

func (tx *tx) movePage(p *page, from, to *source) {
	values := map[string]value{}
	for _, prop := range from.Properties {
		if kept, ok := to.property(prop.Name); ok {
			values[kept.ID] = carried(p.Values[prop.ID], prop, kept)
		}
		if prop.Type == "relation" {
			tx.relate(p, prop, p.Values[prop.ID].Pages, nil)
		}
	}
	rows := tx.world.Rows
	put(tx, rows, from.ID, slices.DeleteFunc(slices.Clone(rows[from.ID]), func(row string) bool { return row == p.ID }))
	at, _ := slices.BinarySearchFunc(rows[to.ID], p.Seq, func(row string, seq int64) int {
		return cmp.Compare(tx.world.Pages[row].Seq, seq)
	})
	put(tx, rows, to.ID, slices.Insert(slices.Clone(rows[to.ID]), at, p.ID))
	moved := tx.edit(tx.world.Pages[p.ID], func(p *page) { p.Parent, p.Values = parent{Source: to.ID}, values })
	tx.relateAll(moved, nil)
}

// carried returns what a moved value keeps: options with the same name in the new property, and
// pages to which that may point as well.
func carried(v value, from, to property) value {
	if from.Type != to.Type || from.Type == "relation" && from.Link.Source != to.Link.Source {
		return value{}
	}
	var options []string
	for _, id := range v.Options {
		if o, ok := from.option(func(o option) bool { return o.ID == id }); ok {
			if o, ok = to.optionNamed(o.Name); ok {
				options = append(options, o.ID)
			}
		}
	}
	v.Options = options
	return v
}
