package reserve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Set is an immutable set of reservations, to be compared with any number of paths.
type Set struct {
	live []entry
	// at translates the places of a path.
	at func(Target) Target
	// current returns a reservation with its effective end; false if it is over.
	current func(Reservation) (Reservation, bool)
}

// NewSet returns the Set of a list of live reservations, see Book.Compared. It leaves out any that it
// cannot read, and returns an error about them.
func NewSet(list []Reservation) (Set, error) {
	s := Set{at: asIs, current: func(r Reservation) (Reservation, bool) { return r, true }}
	var errs []error
	for _, r := range list {
		e, err := entryOf(r, asIs)
		if err != nil { // a later version may have written it
			errs = append(errs, fmt.Errorf("what %s has reserved cannot be read: %w", r.Agent, err))
			continue
		}
		s.live = append(s.live, e)
	}
	return s, errors.Join(errs...)
}

// Empty reports whether nothing is reserved.
func (s Set) Empty() bool { return len(s.live) == 0 }

// Taken returns, for each target, the reservation that keeps the agent from touching it; nil if the
// agent may. Others' exclusive reservations keep it from that, and shared ones do unless the agent
// shares them, too. The cost depends on the number of patterns and on the targets that they may
// cover. The error is *InvalidError.
func (s Set) Taken(agent string, targets []Target) ([]*Taken, error) {
	at, err := indexOf(targets, s.at)
	if err != nil {
		return nil, err
	}
	found, shares := make([]*Taken, len(targets)), make([]bool, len(targets))
	for _, e := range s.live {
		covered := at.coveredBy(e.matchers)
		if len(covered) == 0 {
			continue
		}
		r, live := s.current(e.Reservation)
		if !live {
			continue
		}
		for i, m := range covered {
			switch f := found[i]; {
			case e.Agent == agent:
				shares[i] = shares[i] || e.Shared
			case f == nil || f.By.Shared && !e.Shared || f.By.Shared == e.Shared && r.Until.After(f.Until):
				found[i] = &Taken{Asked: targets[i].Text, Pattern: m.text, By: r, Until: r.Until}
			}
		}
	}
	for i, f := range found {
		if f != nil && f.By.Shared && shares[i] {
			found[i] = nil
		}
	}
	return found, nil
}

// index finds the targets that a matcher covers without trying all of them: it tries only the files
// below the matcher's prefix.
type index struct {
	targets []Target
	files   map[string][]spotted // by place, sorted by path
	// others are the targets that are not files; for a folder with the Globs of its content.
	others map[int]map[Spot]Glob
}

// spotted is the path of a file in a place, and the number of its target.
type spotted struct {
	path string // without a slash at its beginning
	of   int
}

func indexOf(targets []Target, at func(Target) Target) (index, error) {
	x := index{files: make(map[string][]spotted), others: make(map[int]map[Spot]Glob)}
	for i, t := range targets {
		if err := t.check(); err != nil {
			return x, &InvalidError{Detail: err.Error()}
		}
		t = at(t)
		x.targets = append(x.targets, t)
		if len(t.At) == 0 {
			continue
		}
		if t.Folder || t.At[0].Place == Names {
			within, err := withinOf(t)
			if err != nil {
				return x, &InvalidError{Detail: err.Error()}
			}
			x.others[i] = within
			continue
		}
		for _, s := range t.At {
			x.files[s.Place] = append(x.files[s.Place], spotted{strings.TrimPrefix(s.Path, "/"), i})
		}
	}
	for _, all := range x.files {
		slices.SortFunc(all, func(a, b spotted) int { return strings.Compare(a.path, b.path) })
	}
	return x, nil
}

// coveredBy returns the targets that one of the matchers covers, each with the first such matcher.
func (x index) coveredBy(matchers []matcher) map[int]matcher {
	var covered map[int]matcher
	add := func(i int, m matcher) {
		if covered == nil {
			covered = make(map[int]matcher)
		}
		if _, known := covered[i]; !known {
			covered[i] = m
		}
	}
	for _, m := range matchers {
		for i, within := range x.others {
			if m.covers(x.targets[i], within) {
				add(i, m)
			}
		}
		for _, s := range m.spots {
			for _, files := range below(x.files[s.place], s.prefix) {
				for _, f := range files {
					if s.glob.Match(f.path, false) {
						add(f.of, m)
					}
				}
			}
		}
	}
	return covered
}

// below returns the files with that path, and the files below it; all files if the path is empty.
func below(files []spotted, path string) [2][]spotted {
	if path == "" {
		return [2][]spotted{files}
	}
	between := func(from, to string) []spotted {
		lo, _ := slices.BinarySearchFunc(files, from, func(f spotted, path string) int { return strings.Compare(f.path, path) })
		hi, _ := slices.BinarySearchFunc(files[lo:], to, func(f spotted, path string) int { return strings.Compare(f.path, path) })
		return files[lo : lo+hi]
	}
	return [2][]spotted{between(path, path+"\x00"), between(path+"/", path+"0")} // 0 comes after the slash
}
