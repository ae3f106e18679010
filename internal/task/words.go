package task

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// Words understands the words for statuses and priorities: dibs's own and the board's. Nothing else
// does. A nil *Words, like its zero value, knows dibs's own alone. It is safe for concurrent use;
// Set replaces the board's words.
//
// Case does not matter. If a word of dibs's is another of the board's, dibs's exact spelling means
// dibs's own, so that programs can send back what they read; any other means the board's.
type Words struct{ board atomic.Pointer[Vocabulary] }

// Vocabulary is what a board calls statuses and priorities.
type Vocabulary struct {
	Statuses map[Status]string
	// Priorities are the names of each priority, in any case; without any, it has dibs's own.
	Priorities map[Priority][]string
	// Options are all options for a priority, in the board's order; none if it is a text. An option
	// that is not among Priorities means None.
	Options []string
}

// PriorityWord is what a word for a priority means.
type PriorityWord struct {
	Rank Priority
	// Name is the board's own word for it; empty if it has none.
	Name string
	// Only is set if just the tasks with Name are meant, and not all of Rank.
	Only bool
}

// Set replaces the board's words.
func (w *Words) Set(v Vocabulary) { w.board.Store(&v) }

func (w *Words) vocabulary() Vocabulary {
	if w == nil || w.board.Load() == nil {
		return Vocabulary{}
	}
	return *w.board.Load()
}

// StatusName returns the board's word for a status, or dibs's if it has none.
func (w *Words) StatusName(s Status) string {
	return cmp.Or(w.vocabulary().Statuses[s], string(s))
}

// StatusOf returns the word for the status of t that its page shows.
func (w *Words) StatusOf(t Task) string { return cmp.Or(t.StatusName, w.StatusName(t.Status)) }

// ByStatus returns the board's words for the statuses that it has.
func (w *Words) ByStatus() map[Status]string {
	own, names := w.vocabulary().Statuses, make(map[Status]string)
	for _, s := range AllStatuses() {
		if own == nil || own[s] != "" {
			names[s] = w.StatusName(s)
		}
	}
	return names
}

// Statuses lists the same words in the order of a task's life.
func (w *Words) Statuses() []string {
	var names []string
	known := w.ByStatus()
	for _, s := range AllStatuses() {
		if name, ok := known[s]; ok {
			names = append(names, name)
		}
	}
	return names
}

// Status returns the status that a word means. The error repeats the word and lists the board's.
func (w *Words) Status(said string) (Status, error) {
	word, all := Name(strings.TrimSpace(said)), AllStatuses()
	if slices.Contains(all, Status(word)) {
		return Status(word), nil
	}
	for _, name := range []func(Status) string{w.StatusName, func(s Status) string { return string(s) }} {
		if i := slices.IndexFunc(all, func(s Status) bool { return strings.EqualFold(name(s), word) }); i >= 0 {
			return all[i], nil
		}
	}
	return "", fmt.Errorf("%q is not a status: want one of %s", said, strings.Join(w.Statuses(), ", "))
}

// PriorityName returns the board's word for a priority; if it has several or none, dibs's.
func (w *Words) PriorityName(p Priority) string {
	if p == None {
		return p.String()
	}
	if names := w.vocabulary().of(p); len(names) == 1 {
		return names[0]
	}
	return p.String()
}

// PriorityOf returns the word for the priority of t that its page shows.
func (w *Words) PriorityOf(t Task) string { return cmp.Or(t.PriorityName, w.PriorityName(t.Priority)) }

// Priorities lists the board's words for priorities: its options in their order, or else the
// configured names, the most urgent first.
func (w *Words) Priorities() []string { return w.vocabulary().priorities() }

// Priority returns what a word for a priority means. The error repeats the word and lists the
// board's.
func (w *Words) Priority(said string) (PriorityWord, error) {
	word, board := Name(strings.TrimSpace(said)), w.vocabulary()
	own := named(board.priorities(), word)
	i := slices.IndexFunc(Priorities, func(p Priority) bool { return strings.EqualFold(p.String(), word) })
	switch {
	case i >= 0 && (own == "" || word == Priorities[i].String() || board.Rank(own) == Priorities[i]):
		meant := PriorityWord{Rank: Priorities[i]}
		if names := board.of(meant.Rank); own != "" && board.Rank(own) == meant.Rank {
			meant.Name = own
		} else if meant.Rank != None && len(names) > 0 {
			meant.Name = names[0]
		}
		return meant, nil
	case own != "":
		rank := board.Rank(own)
		return PriorityWord{Rank: rank, Name: own, Only: rank == None || len(board.of(rank)) > 1}, nil
	}
	return PriorityWord{}, fmt.Errorf("%q is not a priority: want one of %s", said, strings.Join(board.possible(), ", "))
}

// possible lists the words in an error: the board's, and none.
func (v Vocabulary) possible() []string {
	if all := v.priorities(); named(all, None.String()) != "" {
		return all
	}
	return append(slices.Clone(v.priorities()), None.String())
}

// names returns the names of a priority.
func (v Vocabulary) names(p Priority) []string {
	if own := v.Priorities[p]; len(own) > 0 {
		return own
	}
	return []string{p.String()}
}

// Rank returns the priority with that name, in any case; None if there is none.
func (v Vocabulary) Rank(name string) Priority {
	for _, names := range []func(Priority) []string{func(p Priority) []string { return v.Priorities[p] }, v.names} {
		for _, p := range Priorities {
			if named(names(p), name) != "" {
				return p
			}
		}
	}
	return None
}

// priorities lists the board's words for priorities.
func (v Vocabulary) priorities() []string {
	if len(v.Options) > 0 {
		return v.Options
	}
	var names []string
	for _, p := range Priorities {
		if p != None {
			names = append(names, v.names(p)...)
		}
	}
	return names
}

// of returns the board's words that mean p.
func (v Vocabulary) of(p Priority) []string {
	return slices.DeleteFunc(slices.Clone(v.priorities()), func(name string) bool { return v.Rank(name) != p })
}

// named returns the name that is the word, or else the first that differs only in case; empty if
// there is none.
func named(names []string, word string) string {
	if slices.Contains(names, word) {
		return word
	}
	if i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, word) }); i >= 0 {
		return names[i]
	}
	return ""
}
