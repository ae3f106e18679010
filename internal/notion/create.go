package notion

import (
	"context"
	"errors"
	"strings"
	"time"

	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/notion/transport"
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
	if col := p.codec.columns.token; col.ID != "" {
		p.props[col.ID] = text(newPrefix + id)
	}
	x := exchange{fields: p.codec.fieldIDs()}
	making := transport.Making(Impatient(x.in(ctx)))
	var page *notionapi.Page
	var err error
	if p.body == "" {
		page, err = t.client.api.Page.Create(making, &notionapi.PageCreateRequest{
			Parent:     notionapi.Parent{Type: notionapi.ParentTypeDatabaseID, DatabaseID: notionapi.DatabaseID(p.codec.database)},
			Properties: p.props,
		})
	} else {
		page, err = p.createWithBody(making)
	}
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
	x.complete(page)
	t.client.writing(task.ID(page.ID))
	made, err := t.read(p.codec, page, &x)
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	err = p.codec.whole(page, &x, &made, func(of relation, shown []task.ID) ([]task.ID, error) {
		if of.property == p.codec.columns.dependsOn.ID {
			return p.dependsOn, nil
		}
		return shown, nil
	})
	return x.reading(made), err
}

// createWithBody makes the page with its content. Notion takes Markdown only in versions of the API
// with data sources.
func (p *Plan) createWithBody(ctx context.Context) (*notionapi.Page, error) {
	t := p.tasks
	source, err := t.source(ctx)
	if err != nil {
		return nil, unsent(err)
	}
	page := new(notionapi.Page)
	err = t.client.post(ctx, "/v1/pages", map[string]any{
		"parent":     map[string]any{"type": "data_source_id", "data_source_id": source},
		"properties": p.props,
		"markdown":   p.body,
	}, page)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Kind == claim.NotFound {
		t.setSource("") // the database may have another one by now
	}
	return page, err
}

// unsent returns the error for a page that was not made because something could not be read.
func unsent(err error) *claim.StoreError {
	failed := *storeError(err)
	failed.Landed = claim.LandedNo
	return &failed
}

// source returns the data source in which tasks are made.
func (t *Tasks) source(ctx context.Context) (task.ID, error) {
	database := t.codec.Load().database
	if chosen := t.client.sources.of(database); chosen != "" {
		return chosen, nil
	}
	t.mu.Lock()
	known := t.only
	t.mu.Unlock()
	if known != "" {
		return known, nil
	}
	listed, err := t.client.listSources(ctx, database)
	if err != nil {
		return "", err
	}
	found, err := listed.pick()
	if err != nil {
		return "", err
	}
	t.setSource(found.ID)
	return found.ID, nil
}

func (t *Tasks) setSource(id task.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.only = id
}

// newSince is how much too early a page's time of creation may seem: Notion cuts it to the minute,
// and ours is an estimate.
const newSince = 2 * time.Minute

// Find returns the page that was made under an id, as a query shows it, which may be out of date. A
// page loses the id when somebody claims the task, and has none in a database without claim tokens.
// So if no page has the id, Find returns the pages with that title which the connection made since
// then, without those that have another such id. It takes one query, and, the first time that a
// page lacks the id, one more request.
func (t *Tasks) Find(ctx context.Context, s creation.Sought) ([]claim.Reading, error) {
	c := t.codec.Load()
	x := exchange{only: c.used(), fields: c.fieldIDs(), makers: make(map[string]string)}
	same := notionapi.TextFilterCondition{Equals: s.Title}
	if !fits(s.Title, spanLimit) || s.Title != strings.TrimSpace(s.Title) {
		same = notionapi.TextFilterCondition{StartsWith: strings.TrimSpace(s.Title[:prefix(s.Title, spanLimit/20)])}
	}
	answer, err := t.client.api.Database.Query(x.in(ctx), notionapi.DatabaseID(c.database), &notionapi.DatabaseQueryRequest{
		Filter: notionapi.AndCompoundFilter{
			titleFilter{Property: c.columns.title.ID, Title: same},
			notionapi.TimestampFilter{Timestamp: notionapi.TimestampCreated, CreatedTime: &notionapi.DateFilterCondition{OnOrAfter: dateOf(s.Since.Add(-newSince).UTC().Truncate(time.Minute))}},
		},
		PageSize: pageSize,
	})
	if err != nil {
		return nil, t.noted(err)
	}
	x.completeAll(answer)
	var near []claim.Reading
	for i := range answer.Results {
		page := &answer.Results[i]
		made, err := t.read(c, page, &x)
		if err != nil {
			return nil, t.noted(err)
		}
		sure := made.Token == newPrefix+s.ID
		if !sure {
			if strings.HasPrefix(made.Token, newPrefix) || made.Title != shortened(s.Title) {
				continue
			}
			if bot, err := t.client.Bot(ctx); err != nil || x.makers[page.ID.String()] != bot {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if made, err = t.row(ctx, c, page, &x); err != nil {
			return nil, t.noted(err)
		}
		if sure {
			return []claim.Reading{x.reading(made)}, nil
		}
		near = append(near, x.reading(made))
	}
	return near, nil
}
