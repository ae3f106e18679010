package emulator

import (
	"fmt"
	"slices"
)

// These methods change the options of a select or a status as a person does.

// RenameOption renames an option, as a person does. It keeps its id, and the pages that have it
// show the new name.
func (e *Emulator) RenameOption(databaseID, property, from, to string) error {
	return e.editOptions(databaseID, property, func(options []option) ([]option, error) {
		i := slices.IndexFunc(options, func(o option) bool { return o.Name == from })
		if i < 0 {
			return nil, fmt.Errorf("property %q has no option %q", property, from)
		}
		options[i].Name = to
		return options, nil
	})
}

// DeleteOption removes an option. The pages that had it then show none, or the default of a status,
// even if an option of that name is added again.
func (e *Emulator) DeleteOption(databaseID, property, name string) error {
	return e.editOptions(databaseID, property, func(options []option) ([]option, error) {
		return slices.DeleteFunc(options, func(o option) bool { return o.Name == name }), nil
	})
}

// AddOption appends an option.
func (e *Emulator) AddOption(databaseID, property, name string) error {
	return e.editOptions(databaseID, property, func(options []option) ([]option, error) {
		return append(options, option{ID: newID(), Name: name, Color: "default"}), nil
	})
}

func (e *Emulator) editOptions(databaseID, name string, edit func([]option) ([]option, error)) error {
	return e.do(func(tx *tx) error {
		s, err := tx.world.firstSource(databaseID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Properties, func(p property) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("no property %q", name)
		}
		options, err := edit(slices.Clone(s.Properties[i].Options))
		if err != nil {
			return err
		}
		tx.editSource(s, func(s *source) {
			s.Properties = slices.Clone(s.Properties)
			p := &s.Properties[i]
			p.Options = options
			if p.Type == "status" {
				p.Groups = p.regroup(slices.Clone(p.Groups))
			}
		})
		return nil
	})
}
