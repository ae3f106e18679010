package emulator

import (
	"fmt"
	"slices"
)

// decodeRelation decodes the target of a relation, and adds the synced property on the other side
// of a two-way relation.
func (tx *tx) decodeRelation(s *source, p *property, n node) error {
	target, err := tx.relationTarget(s, n)
	if err != nil {
		return err
	}
	link := &relation{Source: target.ID}
	var name node
	shown, err := n.variant(variant{kind: "single_property", decode: anyObject}, variant{kind: "dual_property", decode: func(n node) (any, error) {
		name = n.opt("synced_property_name")
		return anyObject(n)
	}})
	if err != nil {
		return err
	}
	dual := shown["type"] == "dual_property"
	if p.Link != nil && p.Link.Source == target.ID && dual == (p.Link.Synced != "") {
		return nil // unchanged
	}
	p.Link = link
	if !dual {
		return nil
	}
	back := property{ID: target.newPropertyID(), Type: "relation", Link: &relation{Source: s.ID, Synced: p.ID}}
	back.Name = "Related to " + plainText(s.Name) + " (" + p.Name + ")"
	if name.present {
		if back.Name, err = name.text(maxContent); err != nil {
			return err
		}
	}
	back.Name = target.free(back.Name)
	link.Synced = back.ID
	if target == s {
		s.Properties = append(s.Properties, back)
		return nil
	}
	tx.editSource(target, func(t *source) { t.Properties = append(t.Properties, back) })
	return nil
}

func anyObject(n node) (any, error) { return n.object() }

// free returns a name that no property has yet: name itself, or name with a number.
func (s *source) free(name string) string {
	out := name
	for n := 1; ; n++ {
		if _, taken := s.property(out); !taken {
			return out
		}
		out = fmt.Sprintf("%s %d", name, n)
	}
}

// relationTarget returns the data source to which a relation points. A new source can point to
// itself. API versions with data sources do not accept a database, and those without accept nothing
// else.
func (tx *tx) relationTarget(s *source, n node) (*source, error) {
	if id := n.get("data_source_id"); id.present {
		if tx.oneSource {
			return nil, id.should("not present")
		}
		uuid, err := id.id()
		if err != nil {
			return nil, err
		}
		if uuid == s.ID {
			return s, nil
		}
		if t, ok := tx.world.Sources[uuid]; ok && !tx.world.Hidden[t.Database] {
			return t, nil
		}
		return nil, notFound("data source", uuid)
	}
	if !tx.direct && !tx.oneSource {
		if n.get("database_id").present {
			return nil, n.get("database_id").should("not present")
		}
		return nil, n.get("data_source_id").should("defined")
	}
	uuid, err := n.get("database_id").id()
	if err != nil {
		return nil, err
	}
	if uuid == s.Database {
		return s, nil
	}
	d, ok := tx.world.Databases[uuid]
	if !ok || d.Linked || tx.world.Hidden[uuid] {
		return nil, notFound("database", uuid)
	}
	return tx.world.first(d), nil
}

// relate updates the other side of a two-way relation: pages that p points to now, and did not
// before, point back, and the reverse.
func (tx *tx) relate(p *page, prop property, before, after []string) {
	if prop.Link == nil || prop.Link.Synced == "" {
		return
	}
	for _, id := range after {
		if q := tx.world.Pages[id]; !slices.Contains(before, id) && q != nil {
			tx.edit(q, func(q *page) {
				v := q.Values[prop.Link.Synced]
				v.Pages = append(slices.Clone(v.Pages), p.ID)
				q.Values[prop.Link.Synced] = v
			})
		}
	}
	for _, id := range before {
		if q := tx.world.Pages[id]; !slices.Contains(after, id) && q != nil {
			tx.edit(q, func(q *page) {
				v := q.Values[prop.Link.Synced]
				v.Pages = slices.DeleteFunc(slices.Clone(v.Pages), func(x string) bool { return x == p.ID })
				q.Values[prop.Link.Synced] = v
			})
		}
	}
}
