package reserve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dibs/internal/claim"
)

// A task may name what the work on it touches, in patterns of a .gitignore at the top of its
// repository. A granted claim reserves that until its end. The reservation is a part of the claim's
// own record, so there is none without the other.

// MeansFiles reports whether a pattern means only files, and not folders with their content, as far
// as it shows that itself: it ends with an extension, as file names do.
func MeansFiles(pattern string) bool {
	name := pattern[strings.LastIndexByte(pattern, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && strings.Trim(name[dot+1:], "*") != ""
}

// CheckRepository returns an error for what is no place of a repository; an empty one is not known.
func CheckRepository(repository string) error {
	if repository == "" || HasOrigin(repository) || strings.HasPrefix(repository, "/") {
		return nil
	}
	return fmt.Errorf("%.80q: want %s and where the repository was cloned from, or the absolute path of its common git directory", repository, OriginPrefix)
}

// HasOrigin reports whether a repository is known by where it was cloned from.
func HasOrigin(repository string) bool {
	return strings.HasPrefix(repository, OriginPrefix) && repository != OriginPrefix
}

// touch is one pattern of a task.
type touch struct {
	target Target
	// at is where it is; without spots if the repository is not known. Such patterns are compared as
	// they are written.
	at, written matcher
}

func (t touch) meets(other touch) bool {
	if len(t.at.spots) > 0 && len(other.at.spots) > 0 {
		return t.at.meets(other.at)
	}
	return t.written.meets(other.written)
}

// touchesOf reads the patterns of a task. The errors are about those that touch nothing, because they
// cannot be read. The repository is a Spot's Place, empty for an unknown one, on the machine of a
// member.
func touchesOf(patterns []string, repository, member string) (touches []touch, unread []error) {
	for i, text := range patterns {
		t, err := touchOf(text, repository, member)
		if i >= MaxPatterns {
			err = fmt.Errorf("%q is beyond the first %d patterns: name a folder, such as src/, for more files", text, MaxPatterns)
		}
		if err != nil {
			unread = append(unread, err)
			continue
		}
		touches = append(touches, t)
	}
	return touches, unread
}

func touchOf(text, repository, member string) (t touch, err error) {
	t.target = Target{Text: text, Files: MeansFiles(text)}
	name, named, err := NameOf(text)
	if err != nil {
		return t, err
	}
	spot := Spot{Place: Names, Path: name}
	switch {
	case len(text) > MaxText:
		return t, fmt.Errorf("%.40q and so on has more than %d bytes", text, MaxText)
	case !named:
		if spot.Path, err = Anchor("", text); err != nil {
			return t, err
		}
		spot.Place = repository
	}
	if t.written, err = matcherOf(Target{Text: text, Files: t.target.Files, At: []Spot{spot}}); err != nil || spot.Place == "" {
		return t, err
	}
	t.target.At = []Spot{spot}
	if !named {
		t.written.spots = slices.Clone(t.written.spots)
		t.written.spots[0].place = ""
	}
	t.at, err = matcherOf(on(member)(t.target))
	return t, err
}

// Unread returns what is wrong with those of a task's patterns that cannot be read: they touch nothing.
func Unread(patterns []string) []error {
	_, unread := touchesOf(patterns, "", "")
	return unread
}

// toucher is a claim that touches something.
type toucher struct {
	entry
	touches []touch
}

func toucherOf(c claim.Hold) toucher {
	t := toucher{entry: entry{Reservation: Reservation{
		ID: string(c.ID), Agent: c.Agent, UID: -1, Made: cmp.Or(c.Started, c.Reserved), Until: c.StaleAt, Claim: c.ID, Member: c.Member,
	}}}
	t.touches, _ = touchesOf(c.Touches, c.Repository, c.Member)
	for _, one := range t.touches {
		if len(one.at.spots) > 0 {
			t.Targets, t.matchers = append(t.Targets, one.target), append(t.matchers, one.at)
		}
	}
	return t
}

// Touched is what agents other than one have of what tasks touch: an immutable snapshot, to be
// compared with any number of tasks.
type Touched struct {
	repository, member string
	claims             []toucher
	live               []entry
}

// Empty reports whether nothing is in the way of any task.
func (t Touched) Empty() bool { return len(t.claims)+len(t.live) == 0 }

// By returns what is in the way of a task with these patterns: of several claims or reservations, the
// one that lasts longest. It returns nil if nothing is.
func (t Touched) By(patterns []string) (worst *Taken) {
	if t.Empty() {
		return nil
	}
	mine, _ := touchesOf(patterns, t.repository, t.member)
	add := func(one touch, pattern string, by Reservation) {
		if worst == nil || by.Until.After(worst.Until) {
			worst = &Taken{Asked: one.target.Text, Pattern: pattern, By: by, Until: by.Until}
		}
	}
	for _, one := range mine {
		for _, c := range t.claims {
			if i := slices.IndexFunc(c.touches, one.meets); i >= 0 {
				add(one, c.touches[i].target.Text, c.Reservation)
			}
		}
		for _, e := range t.live {
			if i := slices.IndexFunc(e.matchers, one.at.meets); i >= 0 {
				add(one, e.matchers[i].text, e.Reservation)
			}
		}
	}
	return worst
}

// Overlap returns the first pattern of one task that overlaps with one of another task, as agents in
// the snapshot's repository would have them; empty if none does.
func (t Touched) Overlap(of, with []string) string {
	others, _ := touchesOf(with, t.repository, t.member)
	ours, _ := touchesOf(of, t.repository, t.member)
	for _, one := range ours {
		if slices.ContainsFunc(others, one.meets) {
			return one.target.Text
		}
	}
	return ""
}
