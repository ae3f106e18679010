package notion

import (
	"context"
	"errors"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Permit implements claim.Store, see Client.Permit. It fails while the database is broken.
func (t *Tasks) Permit(ctx context.Context, n int) (context.Context, error) {
	if err := t.Broken(); err != nil {
		return nil, err
	}
	return t.client.Permit(ctx, n)
}

// Now implements claim.Store, see Client.Now.
func (t *Tasks) Now() time.Time { return t.client.Now() }

// Get implements claim.Store. A task with more than 25 dependencies takes further requests,
// with their own permits. If a page has lost a property, or has an unknown status, Get reads the
// schema with one more request.
func (t *Tasks) Get(ctx context.Context, id task.ID) (claim.Reading, error) {
	if err := t.Broken(); err != nil {
		return claim.Reading{}, err
	}
	c := t.codec.Load()
	shown := notedPage{property: c.columns.note.ID}
	at, err := t.client.getPage(ctx, id, &shown)
	if err != nil {
		return claim.Reading{}, t.missing(ctx, storeError(err))
	}
	read, err := t.row(ctx, c, &shown.rawPage)
	if lost(err) || c.newStatus(&shown.rawPage) {
		if err := t.Check(ctx); err != nil {
			return claim.Reading{}, storeError(err)
		}
		c = t.codec.Load()
		read, err = t.row(ctx, c, &shown.rawPage)
	}
	if err == nil && read.ID != id {
		err = anotherPage(read.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	if read.Trashed && transport.HasPermits(ctx) { // somebody counts on it
		if err := t.buried(ctx); err != nil {
			return claim.Reading{}, storeError(err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isBasis(ctx, id) {
		t.meet(id, c.basisOf(&shown.rawPage))
		t.noteOn(id, &shown)
	}
	return reading(read, at), nil
}

// missing returns the error of a page that could not be read. If Notion does not know the page,
// missing checks whether the database is still there; only then is the page gone. While a
// database is not shared, Notion does not know its pages either, and they come back unchanged
// with the database.
func (t *Tasks) missing(ctx context.Context, failed *claim.StoreError) error {
	if failed.Kind != claim.NotFound {
		return failed
	}
	err := t.Check(ctx)
	board, isStore := errors.AsType[*claim.StoreError](err)
	switch {
	case err == nil:
		return failed
	case isStore && board.Kind == claim.NotFound:
		return &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: board}
	default:
		return err
	}
}

// isBasis reports whether the next write to the page may rest on this read, made with ctx. A write
// rests on the read for which it took its permits. The mirror reads pages at any moment: an
// answer that it gets in between may be older, and the write would overwrite what a person has
// changed since. t.mu is held.
func (t *Tasks) isBasis(ctx context.Context, id task.ID) bool {
	if transport.HasPermits(ctx) {
		t.visited.put(id, struct{}{})
		return true
	}
	_, visited := t.visited.get(id)
	return !visited
}

// Write implements claim.Store. If Notion refuses a write for its content, the write is sent
// once more without its note: the task's state matters more than the note.
func (t *Tasks) Write(ctx context.Context, id task.ID, w claim.Write) (claim.Reading, error) {
	if err := t.Broken(); err != nil {
		return claim.Reading{}, err
	}
	c := t.codec.Load()
	props, err := c.properties(w, t.met(id))
	if err != nil {
		return claim.Reading{}, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
	}
	noted := t.addNote(c, id, w, props)
	t.client.writing(id)
	update := &notionapi.PageUpdateRequest{Properties: props}
	shown, at, err := t.client.updatePage(ctx, id, update)
	if noted && err != nil && storeError(err).Kind == claim.Refused {
		t.doubtful.Store(true)
		delete(props, c.columns.note.ID)
		shown, at, err = t.client.updatePage(ctx, id, update)
	}
	if err != nil {
		failed := t.noted(err)
		if failed.Kind == claim.Trashed {
			if err := t.buried(ctx); err != nil {
				return claim.Reading{}, storeError(err)
			}
		}
		return claim.Reading{}, failed
	}
	written, err := t.read(c, shown)
	if err == nil && written.ID != id {
		err = anotherPage(written.ID, id)
	}
	if err != nil {
		return claim.Reading{}, t.noted(err)
	}
	err = c.whole(shown, &written, t.recall)
	return reading(written, at), err
}

// anotherPage returns the error of an answer that shows another page than the requested one.
func anotherPage(got, want task.ID) error {
	return claim.Errorf(claim.Unavailable, claim.LandedUnknown, "Notion answered with page %s where page %s was asked for", got, want)
}

// meet remembers what a page shows beside its task. t.mu is held.
func (t *Tasks) meet(id task.ID, on basis) {
	if on.empty() {
		t.shown.forget(id)
	} else {
		t.shown.put(id, on)
	}
}

// met returns what the page showed beside its task when it was last read.
func (t *Tasks) met(id task.ID) basis {
	t.mu.Lock()
	defer t.mu.Unlock()
	on, _ := t.shown.get(id)
	return on
}

// noteOn remembers the note on a page, or that it has none. The caller has locked t.mu.
func (t *Tasks) noteOn(id task.ID, on *notedPage) {
	if on.spans == nil {
		t.notes.forget(id)
		return
	}
	shown := make(noteText, len(on.spans))
	for i, span := range on.spans {
		shown[i] = newNoteSpan(span)
	}
	t.notes.put(id, shown)
}

// addNote adds the note to a page update, and reports whether it did. It does not if there is no
// property for it, or if writing would damage somebody's text.
func (t *Tasks) addNote(c *codec, id task.ID, w claim.Write, props notionapi.Properties) bool {
	if w.Note == nil || c.columns.note.ID == "" {
		return false
	}
	t.mu.Lock()
	shown, known := t.notes.get(id)
	t.mu.Unlock()
	if !known {
		return false
	}
	spans, ok := shown.with(*w.Note)
	if ok {
		props[c.columns.note.ID] = value{notionapi.PropertyTypeRichText, spans}
	}
	return ok
}

// row reads a row of a query. If the row does not show all that the task waits for, or a user without
// a name, row requests the rest.
func (t *Tasks) row(ctx context.Context, c *codec, page *rawPage) (task.Task, error) {
	for _, user := range c.nameless(page) {
		t.client.users.Learn(transport.WithoutPermits(ctx), user.ID)
	}
	row, err := t.read(c, page)
	if err != nil {
		return row, err
	}
	err = c.whole(page, &row, func(of relationKey, _ []task.ID) ([]task.ID, error) { return t.related(ctx, of) })
	if err != nil {
		return row, storeError(err)
	}
	return row, nil
}

// read reads a page, and its fields.
func (t *Tasks) read(c *codec, page *rawPage) (task.Task, error) {
	for _, user := range c.nameless(page) {
		user.Name = t.client.users.Name(user.ID)
	}
	row, err := c.task(page)
	if err != nil {
		return row, err
	}
	t.readFields(c, page, &row)
	if c.newStatus(page) {
		t.doubtful.Store(true)
	}
	return row, nil
}

// readFields reads the further properties of row from its page, and whether row is in the scope of
// agents. If the page lacks one that the database should have, the schema will be read again.
func (t *Tasks) readFields(c *codec, page *rawPage, row *task.Task) {
	if len(c.columns.fields) == 0 {
		return
	}
	row.Fields = make(task.Fields, len(c.columns.fields))
	for _, f := range c.columns.fields {
		p := page.Properties[f.Column.ID]
		if p == nil {
			row.Fields[f.Name] = nil
			if f.Column.ID != "" {
				t.miss(f.Column.ID)
			}
			continue
		}
		row.Fields[f.Name] = p.value()
		if ids := p.related(); len(ids) > 0 {
			if row.Related == nil {
				row.Related = make(map[string][]task.ID)
			}
			row.Related[f.Name] = ids
		}
	}
	for _, hidden := range c.hidden {
		if row.Scope == nil {
			row.Scope = make(task.Fields, len(c.hidden))
		}
		row.Scope[hidden] = row.Fields[hidden]
		delete(row.Fields, hidden)
	}
	if len(row.Fields) == 0 {
		row.Fields = nil
	}
	*row = t.Titled(*row)
}

// miss records that a page lacks a field.
func (t *Tasks) miss(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missed[id] {
		return // the schema was read since, and has it
	}
	if t.missed == nil {
		t.missed = make(map[string]bool)
	}
	t.missed[id] = true
	t.doubtful.Store(true)
}
