package emulator

import "slices"

// statusGroups are the groups of every status property.
var statusGroups = []group{{Name: "To-do", Color: "gray"}, {Name: "In progress", Color: "blue"}, {Name: "Complete", Color: "green"}}

// defaultStatuses are the options of a status property made without options.
var defaultStatuses = []option{{Name: "Not started", Color: "default"}, {Name: "In progress", Color: "blue"}, {Name: "Done", Color: "green"}}

// decodeStatus decodes the options and groups of a status property. Options left out are removed;
// groups stay unless given.
func (p *property) decodeStatus(n node) error {
	if p.Groups == nil {
		for _, g := range statusGroups {
			g.ID = newID()
			p.Groups = append(p.Groups, g)
		}
	}
	switch options := n.opt("options"); {
	case options.present:
		if err := p.decodeOptions(options); err != nil {
			return err
		}
	case p.Options == nil:
		for i, o := range defaultStatuses {
			o.ID, o.group = newID(), statusGroups[i].Name
			p.Options = append(p.Options, o)
		}
	}
	groups := slices.Clone(p.Groups)
	if g := n.opt("groups"); g.present {
		var err error
		if groups, err = p.decodeGroups(g); err != nil {
			return err
		}
	}
	p.Groups = p.regroup(groups)
	return nil
}

// decodeGroups decodes groups; they name their options by id or name.
func (p *property) decodeGroups(n node) ([]group, error) {
	elements, err := n.array()
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, e := range elements {
		name, err := e.get("name").text(maxOption)
		if err != nil {
			return nil, err
		}
		g := group{ID: newID(), Name: name, Color: "default"}
		if i := slices.IndexFunc(p.Groups, func(x group) bool { return x.Name == name }); i >= 0 {
			g.ID, g.Color = p.Groups[i].ID, p.Groups[i].Color
		}
		if g.Color, err = e.color(g.Color); err != nil {
			return nil, err
		}
		ids, err := e.get("option_ids").array()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			s, err := id.text(maxOption)
			if err != nil {
				return nil, err
			}
			o, ok := p.optionID(s)
			if !ok {
				if o, ok = p.optionNamed(s); !ok {
					return nil, id.should("the id of an option")
				}
			}
			g.OptionIDs = append(g.OptionIDs, o.ID)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// regroup removes deleted options from the groups, moves options that name a group into it, and
// adds the rest without a group to the first.
func (p *property) regroup(groups []group) []group {
	named := map[string]string{} // group by option id
	for i, o := range p.Options {
		if o.group != "" {
			named[o.ID], p.Options[i].group = o.group, ""
		}
	}
	grouped := map[string]bool{}
	for i, g := range groups {
		ids := []string{}
		for _, id := range g.OptionIDs {
			if _, ok := p.optionID(id); ok && !grouped[id] && (named[id] == "" || named[id] == g.Name) {
				ids = append(ids, id)
				grouped[id] = true
			}
		}
		groups[i].OptionIDs = ids
	}
	if len(groups) == 0 {
		return groups
	}
	for _, o := range p.Options {
		if grouped[o.ID] {
			continue
		}
		at := max(0, slices.IndexFunc(groups, func(g group) bool { return g.Name == named[o.ID] }))
		groups[at].OptionIDs = append(groups[at].OptionIDs, o.ID)
	}
	return groups
}
