package notion

import (
	"context"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// several are the types of properties that take several values.
var several = map[string]bool{
	string(notionapi.PropertyTypeMultiSelect): true, typePeople: true, typeRelation: true,
}

// writable maps the types of properties that a field can have to functions that convert its texts
// for Notion. There is at least one text, and only one unless the type is in several.
var writable map[string]func(p *drafting, ctx context.Context, col Column, values []string) (any, error)

func init() { // an initializer would be circular
	writable = map[string]func(*drafting, context.Context, Column, []string) (any, error){
		typeRichText: (*drafting).richText,
		typeNumber:   single(numberOf),
		typeSelect:   (*drafting).selected,
		typeStatus:   (*drafting).selected,
		typeDate:     single(dateOfText),
		typePeople:   (*drafting).people,
		typeRelation: (*drafting).related,
		string(notionapi.PropertyTypeMultiSelect): (*drafting).selectedMany,
		string(notionapi.PropertyTypeCheckbox):    single(checkboxOf),
		string(notionapi.PropertyTypeURL):         single(urlOf),
		string(notionapi.PropertyTypeEmail):       single(emailOf),
		string(notionapi.PropertyTypePhoneNumber): single(phoneOf),
	}
}

// single converts a single value that needs no context.
func single(parse func(string) (any, string)) func(*drafting, context.Context, Column, []string) (any, error) {
	return func(_ *drafting, _ context.Context, col Column, values []string) (any, error) {
		content, want := parse(strings.TrimSpace(values[0]))
		if want != "" {
			return nil, wrong(col, values[0], want)
		}
		return content, nil
	}
}

func wrong(col Column, said, want string) error {
	return &task.DraftError{Detail: fmt.Sprintf("property %q is of type %s, and %q is none: want %s", col.Name, col.Type, said, want)}
}

func (p *drafting) richText(_ context.Context, col Column, values []string) (any, error) {
	if !fits(values[0], spanLimit*spansLimit/2) {
		return nil, &task.DraftError{Detail: fmt.Sprintf("the text for property %q is too long: put it into the body", col.Name)}
	}
	return p.texts.write(values[0]), nil
}

func numberOf(s string) (any, string) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, "a number such as 3 or 0.5"
	}
	return n, ""
}

func checkboxOf(s string) (any, string) {
	switch strings.ToLower(s) {
	case "true", "yes":
		return true, ""
	case "false", "no":
		return false, ""
	}
	return nil, "true or false"
}

func urlOf(s string) (any, string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || !fits(s, spanLimit) {
		return nil, "a URL such as https://example.com"
	}
	return s, ""
}

func emailOf(s string) (any, string) {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || !fits(s, 200) {
		return nil, "an address such as ada@example.com"
	}
	return s, ""
}

func phoneOf(s string) (any, string) {
	if !fits(s, 200) {
		return nil, "at most 200 characters"
	}
	return s, ""
}

// dateSpan is a date property's value: a day or a moment, or from one to another.
type dateSpan struct {
	Start string `json:"start"`
	End   string `json:"end,omitempty"`
}

func dateOfText(s string) (any, string) {
	const want = "a day such as 2026-11-30, a time such as 2026-11-30T14:30:00+01:00, or two of a kind with / between them"
	first, last, ranged := strings.Cut(s, "/")
	start, startIsDay, ok := dateText(first)
	if !ok {
		return nil, want
	}
	if !ranged {
		return dateSpan{Start: start}, ""
	}
	end, endIsDay, ok := dateText(last)
	if !ok || endIsDay != startIsDay {
		return nil, want
	}
	return dateSpan{start, end}, ""
}

// dateText returns a day, or a moment with its offset, in Notion's form.
func dateText(s string) (out string, day, ok bool) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format(time.DateOnly), true, true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.Format("2006-01-02T15:04:05.000-07:00"), false, err == nil
}

// option finds the option of that name, ignoring case.
func (p *drafting) option(col Column, name string) (named, error) {
	name = task.Name(strings.TrimSpace(name))
	if slices.Contains(col.Options, name) {
		return named{col.inNotion(name)}, nil
	}
	i := slices.IndexFunc(col.Options, func(o string) bool { return strings.EqualFold(o, name) })
	if i >= 0 {
		return named{col.inNotion(col.Options[i])}, nil
	}
	has := "it has none"
	if len(col.Options) > 0 {
		has = "there is " + quotedList(col.Options)
	}
	return named{}, &task.DraftError{Detail: fmt.Sprintf("property %q has no option %q: %s", col.Name, name, has)}
}

func (p *drafting) selected(_ context.Context, col Column, values []string) (any, error) {
	return p.option(col, values[0])
}

func (p *drafting) selectedMany(_ context.Context, col Column, values []string) (any, error) {
	options := []named{}
	for _, name := range parts(values) {
		o, err := p.option(col, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(options, o) {
			options = append(options, o)
		}
	}
	return options, nil
}

// parts splits a single text at its commas.
func parts(values []string) []string {
	if len(values) > 1 {
		return values
	}
	var list []string
	for part := range strings.SplitSeq(values[0], ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func (p *drafting) people(ctx context.Context, _ Column, values []string) (any, error) {
	people := []pageRef{}
	for _, who := range parts(values) {
		id, err := p.Person(ctx, who)
		if err != nil {
			return nil, err
		}
		if ref := (pageRef{id}); !slices.Contains(people, ref) {
			people = append(people, ref)
		}
	}
	return people, nil
}

// related returns the pages for a relation: tasks by any name, pages of other databases by id or
// URL.
func (p *drafting) related(ctx context.Context, col Column, values []string) (any, error) {
	var ids []task.ID
	for _, name := range parts(values) {
		if col.Source == p.codec.source {
			id, err := p.Named(ctx, name)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
			continue
		}
		id, err := task.ParseTaskID(name)
		if err != nil {
			return nil, wrong(col, name, "the id or the URL of a page")
		}
		ids = append(ids, id)
	}
	return refsTo(ids)
}
