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

// index finds the targets that a matcher covers without trying all of them: of files and names it
// tries only those that begin as all that the matcher covers does.
type index struct {
	single  map[string][]spotted // files and names by place, sorted by path
	folders map[int]matcher      // of their content, by target
}

// spotted is the path of a file in a place, or a name, and the number of its target.
type spotted struct {
	path string
	of   int
}

func (s spotted) compare(path string) int { return strings.Compare(s.path, path) }

func indexOf(targets []Target, at func(Target) Target) (index, error) {
	x := index{make(map[string][]spotted), make(map[int]matcher)}
	for i, t := range targets {
		if err := t.check(); err != nil {
			return x, &InvalidError{Detail: err.Error()}
		}
		var folder matcher
		for _, s := range at(t).At {
			if t.Folder && s.Place != Names {
				folder.spots = append(folder.spots, spotMatcher{s.Place, inFolder(s.Path)})
			} else {
				x.single[s.Place] = append(x.single[s.Place], spotted{s.Path, i})
			}
		}
		if t.Folder {
			x.folders[i] = folder
		}
	}
	for _, all := range x.single {
		slices.SortFunc(all, func(a, b spotted) int { return a.compare(b.path) })
	}
	return x, nil
}

// coveredBy returns the targets that one of the matchers covers, each with the first such matcher. A
// folder is covered if anything in it may be.
func (x index) coveredBy(matchers []matcher) map[int]matcher {
	covered := make(map[int]matcher)
	add := func(i int, m matcher) {
		if _, known := covered[i]; !known {
			covered[i] = m
		}
	}
	for _, m := range matchers {
		for i, folder := range x.folders {
			if m.meets(folder) {
				add(i, m)
			}
		}
		for _, s := range m.spots {
			all, begin := x.single[s.place], s.glob[0].prefix
			first, _ := slices.BinarySearchFunc(all, begin, spotted.compare)
			for _, f := range all[first:] {
				if !strings.HasPrefix(f.path, begin) {
					break
				}
				if s.glob.Match(f.path) {
					add(f.of, m)
				}
			}
		}
	}
	return covered
}

// entry is a reservation with the matchers of its targets.
type entry struct {
	Reservation
	matchers []matcher
}

// entryOf returns the entry of a reservation. at translates the places of its targets.
func entryOf(r Reservation, at func(Target) Target) (entry, error) {
	e := entry{Reservation: r}
	for _, t := range r.Targets {
		if err := t.check(); err != nil {
			return entry{}, err
		}
		m, err := matcherOf(at(t))
		if err != nil {
			return entry{}, err
		}
		if len(m.spots) > 0 {
			e.matchers = append(e.matchers, m)
		}
	}
	return e, nil
}
