package notion

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox/creation"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// newPrefix begins the claim token of a new task that nobody has claimed yet. No claim's token
// begins so.
const newPrefix = "new "

// Create makes the page of a plan, with one request. The request is repeated only if Notion asked
// for a pause of a few seconds. If ctx ends before it is sent, nothing is made. The first plan with
// a body needs another request first, which reads the data source. A page that Notion made but
// could not show is read. Find finds the page by id. The error is a *claim.StoreError.
func (p *Plan) Create(ctx context.Context, id string) (claim.Reading, error) {
	t := p.tasks
	p.props[p.codec.columns.token.ID] = text(newPrefix + id)
	page, at, err := p.send(transport.Making(Impatient(ctx)))
	if err != nil {
		failed := t.noted(err)
		if answered, ok := errors.AsType[*APIError](err); ok {
			if made, perr := task.ParseID(answered.Data("committed_resource_id")); perr == nil {
				if read, rerr := t.Get(context.WithoutCancel(ctx), made); rerr == nil {
					return read, nil
				}
			}
		}
		return claim.Reading{}, failed
	}
	t.client.writing(task.ID(page.ID))
	made, err := t.read(p.codec, page)
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	err = p.codec.whole(page, &made, func(of relation, shown []task.ID) ([]task.ID, error) {
		if of.property == p.codec.columns.dependsOn.ID {
			return p.dependsOn, nil
		}
		return shown, nil
	})
	return reading(made, at), err
}

// send makes the page. The library cannot send Markdown.
func (p *Plan) send(ctx context.Context) (*page, transport.Moment, error) {
	if p.body == "" {
		return p.tasks.client.createPage(ctx, p.codec.source, &notionapi.PageCreateRequest{Properties: p.props})
	}
	made := new(page)
	at, err := p.tasks.client.ask(ctx, http.MethodPost, "/v1/pages", nil, map[string]any{
		"parent": inSource(string(p.codec.source)), "properties": p.props, "markdown": p.body,
	}, made)
	return made, at, err
}

// newSince is how much too early a page's time of creation may seem: Notion cuts it to the minute,
// and ours is an estimate.
const newSince = 2 * time.Minute

// Find returns the page that was made under an id, as a query shows it, which may be out of date. A
// page loses the id when somebody claims the task. So if no page has the id, Find returns the pages
// with that title which the connection made since then, without those that have another such id. It
// takes one query, and, the first time that a page lacks the id, one more request.
func (t *Tasks) Find(ctx context.Context, s creation.Sought) ([]claim.Reading, error) {
	c := t.codec.Load()
	same := notionapi.TextFilterCondition{Equals: s.Title}
	if !fits(s.Title, spanLimit) || s.Title != strings.TrimSpace(s.Title) {
		same = notionapi.TextFilterCondition{StartsWith: strings.TrimSpace(s.Title[:prefix(s.Title, spanLimit/20)])}
	}
	answer, at, err := t.client.query(ctx, c.source, &notionapi.DatabaseQueryRequest{
		Filter: notionapi.AndCompoundFilter{
			titleFilter{Property: c.columns.title.ID, Title: same},
			notionapi.TimestampFilter{Timestamp: notionapi.TimestampCreated, CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: dateOf(s.Since.Add(-newSince).UTC().Truncate(time.Minute))}},
		},
		PageSize: pageSize,
	}, c.used()...)
	if err != nil {
		return nil, t.noted(err)
	}
	var near []claim.Reading
	for i := range answer.Results {
		page := &answer.Results[i]
		made, err := t.read(c, page)
		if err != nil {
			return nil, t.noted(err)
		}
		sure := made.Token == newPrefix+s.ID
		if !sure {
			if strings.HasPrefix(made.Token, newPrefix) || made.Title != shortened(s.Title) {
				continue
			}
			if bot, err := t.client.Bot(ctx); err != nil || string(page.CreatedBy) != bot {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if made, err = t.row(ctx, c, page); err != nil {
			return nil, t.noted(err)
		}
		if sure {
			return []claim.Reading{reading(made, at)}, nil
		}
		near = append(near, reading(made, at))
	}
	return near, nil
}
