package notion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/task"

	"github.com/jomei/notionapi"
)

// Probe is a measurement on two rows made for it in the tasks database.
type Probe struct {
	Rounds []Round
	// Facts are in the order of FactNames.
	Facts []Fact
	// Late is how long after it was given up a write landed, at least; zero if each was there when it
	// was first looked for, or never.
	Late time.Duration
	// Requests is how many answers there were, those to retries included.
	Requests int
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
	// probePause is the least wait between two reads that look for a write. It grows to an eighth of
	// the time that was waited for already, which is how exact the measured times are.
	probePause = 250 * time.Millisecond
	// probeFate is how long a write that was given up is looked for. Notion ends requests after a
	// minute.
	probeFate = 70 * time.Second
	// probeRest is the wait before the last reads. A write that is taken back meanwhile is noticed.
	probeRest = 3 * time.Second
	// probeEarly is the shortest wait for the answer to a write that is given up on purpose.
	probeEarly = 25 * time.Millisecond
	// How many writes are given up on purpose, and how many blocks are appended, and moved to the
	// trash twice.
	probeGivenUp, probeBlocks, probeTrashed = 5, 3, 2
)

// probeDay is the day of the dates that are written. Each write has another minute.
var probeDay = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// ProbeTitle returns the title of a probe's rows. The id is a ULID, so that the next probe knows the
// rows if this one is killed.
func ProbeTitle(id string) string { return probeBegins + id + ", can be deleted" }

const probeBegins = "dibs probe "

var probeTitle = regexp.MustCompile(`^` + probeBegins + `[0-9A-HJKMNP-TV-Z]{26}, can be deleted(, write \d+( of \d+)?)?$`)

// ProbeRequests returns how many requests a probe of so many rounds makes while each write shows at
// once.
func ProbeRequests(rounds int) int {
	const rows = 2
	return 1 + rows + 3*rounds + (rounds+1)/2 + 2*probeBlocks + 2*probeTrashed + 2*probeGivenUp + rows + 2*rows
}

// Probe makes two rows of that title, measures some rounds and the facts on them, and puts them into
// the trash. A fact about late writes holds if they are not later than window, claim.write_window.
// The rows are CANCELLED from the start, so that nobody claims them. Rows that an earlier probe
// left are put into the trash, too. If a row could not be put there, the error says where it is.
//
// A probe takes half a minute, and some minutes if writes do not show. Of two probes at a time the
// later one ends the earlier.
func (t *Tasks) Probe(ctx context.Context, title string, rounds int, window time.Duration) (measured Probe, err error) {
	p := &prober{tasks: t, codec: t.codec.Load(), title: title, window: window}
	ctx = transport.WithDates(ctx, p.dates.hear)
	if err := p.sweep(ctx); err != nil {
		return Probe{}, err
	}
	defer func() {
		for _, row := range p.rows {
			if trashErr := p.clear(context.WithoutCancel(ctx), row); trashErr != nil {
				err = fmt.Errorf("the row %q (%s) is left in the tasks database: put it into the trash, or probe again, which does: %w", title, row.id, cmp.Or(err, trashErr))
			}
		}
		if err == nil {
			measured = p.measured()
		}
	}()
	for range 2 {
		id, err := t.makeScratch(ctx, title)
		if id != "" {
			p.rows = append(p.rows, &scratch{id: id, writes: []*probeWrite{{title: title, acked: true, shown: true, ended: time.Now()}}})
		} else if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Landed != claim.LandedNo {
			err = fmt.Errorf("a row %q may be left in the tasks database: put it into the trash, or probe again, which does: %w", title, err)
		}
		if err != nil {
			return Probe{}, err
		}
	}
	return Probe{}, p.measure(ctx, rounds)
}

// prober is a probe in progress. Its requests are made one after the other.
type prober struct {
	tasks  *Tasks
	codec  *codec
	title  string
	window time.Duration
	rows   []*scratch
	rounds []Round

	back             int // reads that showed an older write than one before them
	queries          lags
	dates            dates
	minutes          cutDates
	appends, ordered int // lists of blocks after an append, and those in order
	again, refused   int // second moves to the trash
}

// scratch is a row of a probe.
type scratch struct {
	id     task.ID
	writes []*probeWrite
	now    int // the index of the write that the row showed last
	looked time.Time
	gone   bool // in the trash
}

// probeWrite is a write of a row's title, which no other write has.
type probeWrite struct {
	title string
	date  time.Time
	// acked is set if the write was answered, else it was given up, at ended.
	acked bool
	ended time.Time
	shown bool
	// late is how long after ended a read did not show the write yet, at least.
	late time.Duration
	// covered is set if an older write landed over it before it was seen; lost, if it was seen and
	// then not any more.
	covered, lost bool
}

func (p *prober) measure(ctx context.Context, rounds int) error {
	first, second := p.rows[0], p.rows[1]
	for n := range rounds {
		if err := p.round(ctx, first, fmt.Sprintf("%s, write %d of %d", p.title, n+1, rounds), n); err != nil {
			return err
		}
	}
	if err := p.blocks(ctx, first); err != nil {
		return err
	}
	early := probeEarly
	if len(p.rounds) > 0 {
		fastest := slices.MinFunc(p.rounds, func(a, b Round) int { return int(a.Write - b.Write) }).Write
		early = max(early, fastest/2)
	}
	for n := range probeGivenUp {
		if err := p.giveUp(ctx, second, fmt.Sprintf("%s, write %d", p.title, n+1), early); err != nil {
			return err
		}
	}
	if err := p.watch(ctx); err != nil {
		return err
	}
	if err := pause(ctx, probeRest); err != nil {
		return err
	}
	for _, row := range p.rows {
		if _, err := p.verify(ctx, row); err != nil {
			return err
		}
	}
	for _, row := range p.rows {
		if err := p.discard(ctx, row); err != nil {
			return err
		}
		_, _, err := p.tasks.client.updatePage(ctx, row.id, &notionapi.PageUpdateRequest{Archived: true})
		if err := p.secondTime(err); err != nil {
			return err
		}
	}
	return nil
}

// measured returns what the probe found so far.
func (p *prober) measured() Probe {
	found := Probe{Rounds: p.rounds, Requests: p.dates.answers}
	var writes, acked, seen, fresh, kept, unlanded int
	var behind, latest time.Duration
	for _, row := range p.rows {
		for _, w := range row.writes[1:] { // the first made the row
			writes++
			switch {
			case w.shown:
				latest = max(latest, w.late)
			case !w.acked && !w.covered:
				unlanded++
			}
			if !w.acked {
				if w.shown {
					found.Late = max(found.Late, w.late)
				}
				continue
			}
			acked++
			if !w.lost && (w.shown || w.covered) {
				kept++
			}
			if !w.covered {
				seen++
				behind = max(behind, w.late)
				if w.late == 0 {
					fresh++
				}
			}
		}
	}
	found.Facts = []Fact{
		{ReadAfterWrite, seen > 0 && fresh == seen && p.back == 0,
			fmt.Sprintf("%d of %d first reads after a write showed it%s%s", fresh, seen, upTo(behind), counted(p.back, "read went back to an older write"))},
		{WriteLateness, writes > 0 && latest <= p.window,
			fmt.Sprintf("%d writes, %d of them given up: each that landed was seen %s%s", writes, writes-acked, within(latest), counted(unlanded, "never landed"))},
		{WriteKept, acked > 0 && kept == acked, fmt.Sprintf("%d of %d writes that were answered 200 were kept", kept, acked)},
		p.queries.fact(), p.minutes.fact(), p.dates.fact(),
		{AppendOrder, p.appends > 0 && p.ordered == p.appends, fmt.Sprintf("%d of %d lists of blocks had what was appended last at their end", p.ordered, p.appends)},
		{TrashOnce, p.again > 0 && p.refused == p.again, fmt.Sprintf("%d of %d second moves of a page or block to the trash were refused", p.refused, p.again)},
	}
	return found
}

// sweep puts the rows into the trash that an earlier probe has left. The query may lag, so it may
// find a row that is there already.
func (p *prober) sweep(ctx context.Context) error {
	rows, err := p.query(ctx, notionapi.TextFilterCondition{StartsWith: probeBegins})
	if err != nil {
		return err
	}
	for _, page := range rows {
		row, err := p.codec.task(&page)
		if err != nil || row.ClaimedBy != "" || !probeTitle.MatchString(row.Title) {
			continue
		}
		if err := p.tasks.trash(ctx, row.ID); err != nil && storeError(err).Kind != claim.Trashed {
			return fmt.Errorf("the row %q of an earlier probe cannot be put into the trash: do it in Notion: %w", row.Title, err)
		}
	}
	return nil
}

func (p *prober) query(ctx context.Context, title notionapi.TextFilterCondition) ([]rawPage, error) {
	answer, _, err := p.tasks.client.query(ctx, p.codec.source, &notionapi.DatabaseQueryRequest{
		Filter: titleFilter{Property: p.codec.columns.title.ID, Title: title}, PageSize: pageSize,
	})
	if err != nil {
		return nil, storeError(err)
	}
	return answer.Results, nil
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
		err = claim.Errorf(claim.Refused, claim.LandedYes, "the scratch row was made in status %q instead of %s, and put into the trash: see whether an automation of the database sets it", made.Status, over)
	}
	return made.ID, err
}

// round reads, writes, and looks for the write, in every other round by a query, too.
func (p *prober) round(ctx context.Context, row *scratch, title string, n int) error {
	granted, cancel := context.WithCancel(ctx)
	defer cancel()
	permitted, err := p.tasks.client.Permit(granted, 2)
	if err != nil {
		return err
	}
	read, err := p.verify(permitted, row)
	if err != nil {
		return err
	}
	start := time.Now()
	w, err := p.write(permitted, row, title, 29+30*(n%2)) // half of them are nearer to the next minute
	if err != nil {
		return err
	}
	if err := p.await(ctx, row, w, w.ended.Add(probePatience)); err != nil || !w.acked {
		return err
	}
	p.rounds = append(p.rounds, Round{Read: read, Write: w.ended.Sub(start), Stale: w.late})
	if n%2 == 0 && w.shown {
		return p.find(ctx, row, w)
	}
	return nil
}

// write writes a title and a date, without a read. A write of unknown fate is given up. One that
// Notion failed at is an error.
func (p *prober) write(ctx context.Context, row *scratch, title string, second int) (*probeWrite, error) {
	w := &probeWrite{title: title, date: probeDay.Add(time.Duration(len(row.writes))*time.Minute + time.Duration(second)*time.Second + 500*time.Millisecond)}
	_, _, err := p.tasks.client.updatePage(ctx, row.id, &notionapi.PageUpdateRequest{Properties: notionapi.Properties{
		p.codec.columns.title.ID: titleValue(title), p.codec.columns.claimedAt.ID: date(w.date),
	}})
	w.ended, w.acked = time.Now(), err == nil
	answered, isAnswer := errors.AsType[*APIError](err)
	if failed := storeError(err); err != nil && (failed.Landed == claim.LandedNo || isAnswer && answered.Status == http.StatusInternalServerError) {
		return nil, failed
	}
	row.writes = append(row.writes, w)
	return w, nil
}

// giveUp makes a write and does not wait for its answer for longer than early. If an earlier one is
// still to land, it does not wait for this one to show.
func (p *prober) giveUp(ctx context.Context, row *scratch, title string, early time.Duration) error {
	granted, cancel := context.WithCancel(ctx)
	defer cancel()
	permitted, err := p.tasks.client.Permit(granted, 1)
	if err != nil {
		return err
	}
	patience := 2*p.window + time.Second
	if p.due() > 0 {
		patience = 0 // its landing is seen later, like that of the others
	}
	soon, stop := context.WithTimeout(permitted, early)
	defer stop()
	w, err := p.write(soon, row, title, 45)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.Landed == claim.LandedNo && soon.Err() != nil && ctx.Err() == nil {
		return nil // it was given up before it was sent
	}
	if err != nil {
		return err
	}
	return p.await(ctx, row, w, w.ended.Add(patience))
}

// due returns how long the writes that were given up, and are not seen yet, are still looked for.
func (p *prober) due() (left time.Duration) {
	for _, row := range p.rows {
		for _, w := range row.writes {
			if !w.acked && !w.shown {
				left = max(left, probeFate-time.Since(w.ended))
			}
		}
	}
	return left
}

// watch looks for the writes that were given up until each has landed, or cannot any more. On top
// of a write that never was, another one shows what lands later.
func (p *prober) watch(ctx context.Context) error {
	for began := time.Now(); p.due() > 0; {
		if err := pause(ctx, max(time.Second, time.Since(began)/8)); err != nil {
			return err
		}
		for _, row := range p.rows {
			if _, err := p.look(ctx, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// look reads a row, and notes which write it shows. It reports whether an older write has landed over
// one that was seen.
func (p *prober) look(ctx context.Context, row *scratch) (landed bool, err error) {
	page, err := p.tasks.client.page(ctx, row.id)
	if err != nil {
		return false, err
	}
	asked := p.dates.sent
	if page.trashed() {
		return false, claim.Errorf(claim.Trashed, claim.LandedNo, "somebody else, or another probe, put the scratch row into the trash: make one probe at a time")
	}
	if shown, err := p.codec.task(page); err == nil && !shown.Status.Finished() {
		return false, claim.Errorf(claim.Refused, claim.LandedNo, "somebody, or an automation of the database, set the scratch row to %q, where agents are offered it: the probe ends", shown.Status)
	}
	text := task.Plain(page.Properties[p.codec.columns.title.ID].text())
	i := slices.IndexFunc(row.writes, func(w *probeWrite) bool { return w.title == text })
	if i < 0 {
		return false, claim.Errorf(claim.Refused, claim.LandedNo, "somebody else wrote to the scratch row: probe again")
	}
	w := row.writes[i]
	if landed = !w.shown && i < row.now; landed {
		w.late = max(row.looked.Sub(w.ended), time.Millisecond)
	}
	for _, newer := range row.writes[i+1:] {
		if !newer.shown {
			newer.covered = newer.covered || !w.shown
			newer.late = max(asked.Sub(newer.ended), time.Millisecond)
		}
	}
	if !w.shown && !w.date.IsZero() {
		p.minutes.compare(w.date, page.Properties[p.codec.columns.claimedAt.ID])
	}
	w.shown, row.now, row.looked = true, i, asked
	return landed, nil
}

// await looks at a row until it shows a write, an older one covers that, or the time is over. It
// looks at least once.
func (p *prober) await(ctx context.Context, row *scratch, w *probeWrite, until time.Time) error {
	for began := time.Now(); ; {
		if _, err := p.look(ctx, row); err != nil || row.writes[row.now] == w || w.covered || !time.Now().Before(until) {
			return err
		}
		if err := pause(ctx, max(probePause, time.Since(began)/8)); err != nil {
			return err
		}
	}
}

// verify reads a row that nothing was written to since it was last read, and returns how long that
// took. If it shows an older write than it did, it is read until it does not, or the newer write is
// lost.
func (p *prober) verify(ctx context.Context, row *scratch) (took time.Duration, err error) {
	asked, before := time.Now(), row.now
	landed, err := p.look(ctx, row)
	took = time.Since(asked)
	if err != nil || landed || row.now >= before {
		return took, err
	}
	w := row.writes[before]
	if err := p.await(ctx, row, w, time.Now().Add(probePatience)); err != nil {
		return took, err
	}
	if w.lost = row.now < before; !w.lost {
		p.back++
	}
	return took, nil
}

// find asks for a write by a query until it shows it. If a query never did, it asks once.
func (p *prober) find(ctx context.Context, row *scratch, w *probeWrite) error {
	behind := time.Duration(0)
	for {
		rows, err := p.query(ctx, notionapi.TextFilterCondition{Equals: w.title})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(rows, func(page rawPage) bool { id, err := task.ParseID(page.ID); return err == nil && id == row.id }) {
			break
		}
		behind = max(p.dates.sent.Sub(w.ended), time.Millisecond)
		if p.queries.never = p.queries.never || behind > probePatience; p.queries.never {
			break
		}
		if err := pause(ctx, max(probePause, behind/8)); err != nil {
			return err
		}
	}
	p.queries.add(behind)
	return nil
}

// blocks appends blocks to a row's page, reads them after each, and moves some to the trash twice.
func (p *prober) blocks(ctx context.Context, row *scratch) error {
	path := "/v1/blocks/" + string(row.id) + "/children"
	var list struct {
		Results []struct {
			ID        string `json:"id"`
			Paragraph struct {
				Text []span `json:"rich_text"`
			} `json:"paragraph"`
		} `json:"results"`
	}
	var want []string
	for n := range probeBlocks {
		text := fmt.Sprintf("block %d of %d", n+1, probeBlocks)
		body := map[string]any{"children": []notionapi.Block{paragraph(new(spanWriter).write(text))}}
		if _, err := p.tasks.client.ask(ctx, http.MethodPatch, path, nil, body, nil); err != nil {
			return storeError(err)
		}
		list.Results = nil
		if err := p.tasks.client.get(ctx, path, nil, &list); err != nil {
			return storeError(err)
		}
		var got []string
		for _, block := range list.Results {
			got = append(got, plainText(block.Paragraph.Text))
		}
		want = append(want, text)
		if p.appends++; slices.Equal(got, want) {
			p.ordered++
		}
	}
	for _, block := range list.Results[:min(probeTrashed, len(list.Results))] {
		remove := func() error {
			_, err := p.tasks.client.ask(ctx, http.MethodDelete, "/v1/blocks/"+url.PathEscape(block.ID), nil, nil, nil)
			return err
		}
		if err := remove(); err != nil {
			return storeError(err)
		}
		if err := p.secondTime(remove()); err != nil {
			return err
		}
	}
	return nil
}

// secondTime counts the answer to a second move to the trash.
func (p *prober) secondTime(err error) error {
	if err != nil {
		failed := storeError(err)
		if failed.Kind != claim.Refused && failed.Kind != claim.Trashed && failed.Kind != claim.NotFound {
			return failed
		}
		p.refused++
	}
	p.again++
	return nil
}

// clear is discard, if need be after a pause that Notion asked for.
func (p *prober) clear(ctx context.Context, row *scratch) error {
	err := p.discard(ctx, row)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && failed.RetryAfter > 0 && failed.RetryAfter <= probeFate {
		time.Sleep(failed.RetryAfter)
		err = p.discard(ctx, row)
	}
	return err
}

// discard puts a row into the trash, unless it is there.
func (p *prober) discard(ctx context.Context, row *scratch) error {
	if row.gone {
		return nil
	}
	err := p.tasks.trash(ctx, row.id)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok && (failed.Kind == claim.Trashed || failed.Landed == claim.LandedYes) {
		err = nil
	}
	row.gone = err == nil
	return err
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

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
