package notion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Probe is a measurement on a row made for it in the tasks database.
type Probe struct {
	Rounds []Round
}

// Round is one round of requests like those of a claim: a read, a write right after it,
// and reads until one shows the write.
type Round struct {
	Read, Write time.Duration
	// Stale is how long, after the answer to the write, reads still showed the old value; zero if
	// the first read showed the write.
	Stale time.Duration
}

// Attempt returns the time from the start of the read to the answer to the write. It has to fit
// into the write window.
func (r Round) Attempt() time.Duration { return r.Read + r.Write }

const (
	// probePause is the wait between two reads that look for a write.
	probePause = 250 * time.Millisecond
	// probePatience is how long a write may take to show.
	probePatience = 30 * time.Second
)

// Probe makes a row of that title, measures some rounds on it, and puts it into the
// trash. The row is CANCELLED from the start, so that nobody claims it. If it could not
// be put into the trash, the error says where it is.
func (t *Tasks) Probe(ctx context.Context, title string, rounds int) (measured Probe, err error) {
	id, err := t.makeScratch(ctx, title)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Landed != claim.LandedNo {
		return Probe{}, fmt.Errorf("a row %q may be left in the tasks database, put it into the trash: %w", title, err)
	} else if err != nil {
		return Probe{}, err
	}
	defer func() {
		if trashErr := t.trash(context.WithoutCancel(ctx), id); trashErr != nil && err == nil {
			err = fmt.Errorf("the row %q (%s) is left in the tasks database, put it into the trash: %w", title, id, trashErr)
		}
	}()
	for n := range rounds {
		r, err := t.probeRound(ctx, id, fmt.Sprintf("%s, write %d of %d", title, n+1, rounds))
		if err != nil {
			return measured, err
		}
		measured.Rounds = append(measured.Rounds, r)
	}
	return measured, nil
}

// makeScratch makes a row that is CANCELLED, or COMPLETED where the board does without that.
func (t *Tasks) makeScratch(ctx context.Context, title string) (task.ID, error) {
	c, over := t.codec.Load(), task.Cancelled
	if c.names[over] == "" {
		over = task.Completed
	}
	props, err := c.properties(claim.Write{Status: &over}, basis{})
	if err != nil {
		return "", err
	}
	props[c.columns.title.ID] = titleValue(title)
	page, _, err := t.client.createPage(ctx, c.source, &notionapi.PageCreateRequest{Properties: props})
	if err != nil {
		return "", storeError(err)
	}
	made, err := c.task(page)
	if err == nil && made.Status != over {
		err = claim.Errorf(claim.Refused, claim.LandedYes, "the scratch row %s was made in status %q instead of %s: put it into the trash", made.ID, made.Status, over)
	}
	return made.ID, err
}

func (t *Tasks) probeRound(ctx context.Context, id task.ID, title string) (Round, error) {
	var r Round
	c := t.codec.Load()
	granted, cancel := context.WithCancel(ctx)
	defer cancel()
	permitted, err := t.client.Permit(granted, 2)
	if err != nil {
		return r, err
	}
	start := time.Now()
	if _, err := t.client.page(permitted, id); err != nil {
		return r, err
	}
	read := time.Now()
	r.Read = read.Sub(start)
	update := &notionapi.PageUpdateRequest{Properties: notionapi.Properties{c.columns.title.ID: titleValue(title)}}
	if _, _, err := t.client.updatePage(permitted, id, update); err != nil {
		return r, storeError(err)
	}
	written := time.Now()
	r.Write = written.Sub(read)
	for {
		asked := time.Now()
		page, err := t.client.page(ctx, id)
		if err != nil {
			return r, err
		}
		shown, err := c.task(page)
		if err != nil {
			return r, err
		}
		if shown.Title == title {
			return r, nil
		}
		r.Stale = max(asked.Sub(written), time.Millisecond)
		if r.Stale > probePatience {
			return r, nil
		}
		select {
		case <-time.After(probePause):
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// trash puts a row into the trash.
func (t *Tasks) trash(ctx context.Context, id task.ID) error {
	page, _, err := t.client.updatePage(ctx, id, &notionapi.PageUpdateRequest{Archived: true})
	if err != nil {
		return storeError(err)
	}
	if !page.trashed() {
		return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion accepted that and did not do it")
	}
	return nil
}

// titleValue is the value of a title.
func titleValue(s string) value {
	return value{notionapi.PropertyTypeTitle, new(spanWriter).write(s)}
}
