package emulator

import (
	"fmt"
	"slices"
)

// decodeRelation reads where a relation points, and makes the mirroring
// property on the other side of a two-way relation.
func (tx *tx) decodeRelation(s *source, p *property, n node) error {
	target, err := tx.relationTarget(s, n)
	if err != nil {
		return err
	}
	link := &relation{Source: target.ID}
	dual := n.get("dual_property").present
	if t := n.get("type"); !t.absent() {
		kind, err := t.oneOf("single_property", "dual_property")
		if err != nil {
			return err
		}
		dual = kind == "dual_property"
	}
	if p.Link != nil && p.Link.Source == target.ID && dual == (p.Link.Synced != "") {
		return nil // the schema says again what is already so
	}
	p.Link = link
	if !dual {
		return nil
	}
	back := property{ID: target.newPropertyID(), Type: "relation", Link: &relation{Source: s.ID, Synced: p.ID}}
	back.Name = "Related to " + plainText(s.Name) + " (" + p.Name + ")"
	if name := n.get("dual_property").get("synced_property_name"); !name.absent() {
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

// free is a name that no property has yet: the one given, or one with a number behind it.
func (s *source) free(name string) string {
	out := name
	for n := 1; ; n++ {
		if _, taken := s.property(out); !taken {
			return out
		}
		out = fmt.Sprintf("%s %d", name, n)
	}
}

// relationTarget is the data source that a relation is to point to. A source
// that is being made can point to itself. Versions that know of data sources take no
// database for one.
func (tx *tx) relationTarget(s *source, n node) (*source, error) {
	if id := n.get("data_source_id"); !id.absent() {
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

// relate writes the other side of a two-way relation: every page that p now
// points to, and did not before, points back, and the other way round.
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
