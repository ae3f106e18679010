package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"dibs/internal/claim"
	"dibs/internal/task"
)

// Person is somebody in the workspace.
type Person struct {
	ID    string // of the Notion user
	Name  string
	Email string // may be missing
}

// Comments are the comments that agents leave on tasks when they stop work.
type Comments interface {
	// On reports whether comments are made.
	On() bool
	// People returns the people who can be mentioned. anew bypasses the cache. The error of a
	// request is a *claim.StoreError.
	People(ctx context.Context, anew bool) ([]Person, error)
}

type noComments struct{}

func (noComments) On() bool { return false }

func (noComments) People(context.Context, bool) ([]Person, error) { return nil, nil }

// comment completes f for its comment, if there is to be one: when an agent says why it could not
// go on, or asks a person to decide. f.Mention, the agent's wording, becomes the user's id. If it
// cannot, the error is an *InvalidError, and f must not be carried out.
func (b *Broker) comment(ctx context.Context, f claim.Finish) (claim.Finish, error) {
	mention := strings.TrimSpace(f.Mention)
	said := strings.TrimSpace(f.Summary) != ""
	switch {
	case f.Ask && !said:
		return f, &InvalidError{"the question is empty: say what you want to know"}
	case mention != "" && !b.comments.On() && !f.Ask:
		return f, &InvalidError{"nobody can be mentioned, because no comments are made: set notion.comments to true, or leave the mention out"}
	case mention != "" && !said:
		return f, &InvalidError{"nobody can be mentioned without a reason: say in the reason what the person is to know"}
	}
	if !said || !b.comments.On() && !f.Ask || f.As != claim.EndBlocked && f.As != claim.EndFailed && f.As != claim.EndReview {
		return f, nil
	}
	f.Comment, f.Mention = true, ""
	if mention == "" {
		return f, nil
	}
	who, err := b.person(ctx, mention)
	f.Mention = who.ID
	return f, err
}

// person finds the person with that name, e-mail address or id.
func (b *Broker) person(ctx context.Context, who string) (Person, error) {
	var people []Person
	for _, anew := range []bool{false, true} {
		var err error
		if people, err = b.comments.People(ctx, anew); err != nil {
			return Person{}, fmt.Errorf("who %q is cannot be looked up, and nothing was done: %w", who, err)
		}
		switch found := named(people, who); len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Person{}, &InvalidError{fmt.Sprintf("%q could be %s: name the person by e-mail address or id", who, listed(found))}
		}
	}
	var near []Person
	for _, p := range people {
		if strings.Contains(strings.ToLower(p.Name), strings.ToLower(strings.TrimPrefix(who, "@"))) {
			near = append(near, p)
		}
	}
	switch {
	case len(near) > 0:
		return Person{}, &InvalidError{fmt.Sprintf("nobody in the workspace is called %q: it could be %s", who, listed(near))}
	case len(people) == 0:
		return Person{}, &InvalidError{fmt.Sprintf("nobody in the workspace is called %q: the connection sees no people there", who)}
	}
	return Person{}, &InvalidError{fmt.Sprintf("nobody in the workspace is called %q: there is %s", who, listed(people))}
}

// named returns the people with that name, e-mail address or id: exact matches, or else those whose
// name differs only in case.
func named(people []Person, who string) []Person {
	id, err := task.ParseID(who)
	name := strings.TrimPrefix(who, "@")
	var exact, folded []Person
	for _, p := range people {
		other, perr := task.ParseID(p.ID)
		switch {
		case err == nil && perr == nil && id == other, p.Name == name, strings.EqualFold(p.Email, who) && who != "":
			exact = append(exact, p)
		case strings.EqualFold(p.Name, name):
			folded = append(folded, p)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return folded
}

// maxNamed is how many candidates a message lists.
const maxNamed = 5

// listed lists people so that they can be distinguished.
func listed(people []Person) string {
	var names []string
	for _, p := range slices.SortedFunc(slices.Values(people), func(a, b Person) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }) {
		if len(names) == maxNamed {
			return strings.Join(names, ", ") + fmt.Sprintf(", or one of %d more", len(people)-maxNamed)
		}
		names = append(names, fmt.Sprintf("%s (%s)", task.OneLine(p.Name, -1), cmp.Or(p.Email, p.ID)))
	}
	return strings.Join(names, ", ")
}
