// Package doubt tells by the claims on the board what is amiss with the journal: that it was
// restored to an older state, or that a daemon with another journal claims beside this one. It asks
// Notion nothing.
package doubt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/task"
)

// The journal's keys of a doubt, of its end, of the journal's origin, of a stranger, and of this daemon's
// user in Notion.
const (
	metaDoubt    = "doubt"
	metaAdopted  = "adopted"
	metaOrigin   = "origin"
	metaStranger = "stranger"
	metaBot      = "bot"
)

// adviceRestored is what to do about a doubt.
const adviceRestored = "nothing is granted: see that no daemon with the newer journal runs, then run dibs adopt as the daemon's user"

// Claims has the claims made by this daemon and those that share its journal. Its method is safe
// for concurrent use.
type Claims interface {
	// Find returns a claim that the journal knows, or claim.ErrUnknownClaim.
	Find(context.Context, claim.ID) (claim.Hold, error)
}

// Doubt notices that the journal was restored to an older state, or emptied. Such a
// journal does not know claims that the board shows, or has them in an older state. So it cannot be
// trusted about what is held, owed, or done. A claim of another origin that was made since the journal
// began is a stranger's, a daemon's with a journal of its own. A Doubt is safe for concurrent use.
type Doubt struct {
	DoubtConfig
	origin claim.Origin
	born   time.Time // when the journal got its origin, in Notion's time

	mu      sync.Mutex
	bot     string    // this daemon's user in Notion; empty if that is not known
	reason  *evidence // for the doubt; nil if there is none
	stored  bool      // reason is in the journal
	adopted time.Time // in Notion's time: earlier claims count as another daemon's

	stranger sighted   // the last one
	storedAt time.Time // when a sight of one was stored last
}

// sighted is a stranger's claim, and when it was last seen, in Notion's time.
type sighted struct {
	Agent string    `json:"agent"`
	Title string    `json:"title"`
	At    time.Time `json:"at"`
}

// Beside is how long after its last claim was seen a stranger is reckoned with.
const Beside = 24 * time.Hour

// DoubtConfig configures a Doubt. All fields but Shared, LostFrom and LostUntil are required.
type DoubtConfig struct {
	Claims Claims
	// Policy decides whether the lease on a page is over.
	Policy claim.Policy
	// Storage stores the doubt.
	Storage Storage
	Clock   clock.Source
	Log     *slog.Logger
	// Shared says that the journal lies in a database of several machines: a new one may stand for
	// one that was emptied. A new file does not: claims from before it are strangers'.
	Shared bool
	// LostFrom and LostUntil are, in Notion's time, between which the journal is known to have lost
	// what it had. Claims of then are held by strangers, and prove nothing.
	LostFrom, LostUntil time.Time
}

// evidence is a claim on the board that contradicts the journal.
type evidence struct {
	Task  task.ID   `json:"task"`
	Title string    `json:"title"`
	Claim claim.ID  `json:"claim"`
	Agent string    `json:"agent"`
	At    time.Time `json:"at"`
	What  string    `json:"what"`
	Since time.Time `json:"since"` // when what the journal lacks was done
}

// Storage stores values by their keys.
type Storage interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// Origin returns the origin of a journal, and when it got it, in Notion's time. A journal without one
// gets one now.
func Origin(ctx context.Context, s Storage, now time.Time) (claim.Origin, time.Time, error) {
	text, err := s.Meta(ctx, metaOrigin)
	if err != nil {
		return "", now, err
	}
	if origin, born, ok := strings.Cut(text, " "); ok {
		at, err := time.Parse(time.RFC3339, born)
		return claim.Origin(origin), at, err
	}
	origin := claim.NewOrigin()
	return origin, now, s.SetMeta(ctx, metaOrigin, string(origin)+" "+now.UTC().Format(time.RFC3339))
}

// OpenDoubt returns the doubt as it was stored. One that a known loss explains is over: a leader may
// have raised it that did not know of the loss yet.
func OpenDoubt(ctx context.Context, c DoubtConfig) (_ *Doubt, err error) {
	d := &Doubt{DoubtConfig: c}
	if d.origin, d.born, err = Origin(ctx, c.Storage, c.Clock.Now()); err != nil {
		return nil, err
	}
	if !c.Shared {
		d.born = time.Time{}
	}
	if d.bot, err = c.Storage.Meta(ctx, metaBot); err != nil {
		return nil, err
	}
	stranger, err := c.Storage.Meta(ctx, metaStranger)
	if err != nil {
		return nil, err
	}
	if stranger != "" {
		if err := json.Unmarshal([]byte(stranger), &d.stranger); err != nil {
			return nil, fmt.Errorf("the stranger on the board: %w", err)
		}
		d.storedAt = d.stranger.At
		if d.stranger.At = d.storedAt.Add(hourly); d.stranger.At.After(c.Clock.Now()) {
			d.stranger.At = c.Clock.Now()
		}
	}
	text, err := c.Storage.Meta(ctx, metaDoubt)
	if err != nil {
		return nil, err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &d.reason); err != nil {
			return nil, fmt.Errorf("the doubt of the journal: %w", err)
		}
		d.stored = true
	}
	if d.reason != nil && d.lost(d.reason.Since) {
		if err := c.Storage.SetMeta(ctx, metaDoubt, ""); err != nil {
			return nil, err
		}
		d.reason, d.stored = nil, false
	}
	adopted, err := c.Storage.Meta(ctx, metaAdopted)
	if err == nil && adopted != "" {
		d.adopted, err = time.Parse(time.RFC3339Nano, adopted)
	}
	return d, err
}

// Why returns why nothing may be granted, as a *claim.JournalError without a time to try again. It
// returns nil if there is no doubt, or d is nil.
func (d *Doubt) Why() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reason == nil {
		return nil
	}
	return &claim.JournalError{Err: fmt.Errorf("the journal was restored to an older state, or emptied: %q (%s) shows claim %s of %s, %s; %s",
		d.reason.Title, d.reason.Task, d.reason.Claim, d.reason.Agent, d.reason.What, adviceRestored)}
}

// Bot returns this daemon's user in Notion. While it is empty, nothing raises a doubt.
func (d *Doubt) Bot() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bot
}

// SetBot sets this daemon's user in Notion, and stores it for the next start.
func (d *Doubt) SetBot(ctx context.Context, id string) error {
	d.mu.Lock()
	before := d.bot
	d.bot = cmp.Or(id, before)
	d.mu.Unlock()
	if id == before || id == "" {
		return nil
	}
	return d.Storage.SetMeta(ctx, metaBot, id)
}

// See checks a page against the journal, and raises a doubt if they contradict each other. If it
// cannot find out, it leaves that to the next time the page is seen.
func (d *Doubt) See(ctx context.Context, t task.Task) {
	if d == nil {
		return
	}
	d.mu.Lock()
	done, adopted, bot := d.reason != nil && d.stored, d.adopted, d.bot
	d.mu.Unlock()
	token := claim.ParseToken(t.Token)
	if t.Trashed || t.Status != task.Open && t.Status != task.InProgress || // no claim there is live
		token.ID == "" || token.Void || token.Done || t.ClaimedBy == "" || t.ClaimedAt.IsZero() || d.Policy.Stale(t, d.Clock.Now()) {
		return
	}
	if d.Strange(token.ID) {
		if _, err := d.Claims.Find(ctx, token.ID); errors.Is(err, claim.ErrUnknownClaim) {
			d.meet(ctx, t)
		}
		return
	}
	if done || bot == "" {
		return
	}
	what, at := d.contradiction(ctx, t, token.ID)
	if d.lost(at) {
		return
	}
	// A person who copies a page, or edits it, proves nothing: only this daemon's own writes do.
	if made, _ := token.ID.Minted(); what == "" || bot != t.EditedBy || !made.After(adopted) && !t.ClaimedAt.After(adopted) {
		return
	}
	d.raise(ctx, &evidence{Task: t.ID, Title: t.Title, Claim: token.ID, Agent: t.ClaimedBy, At: d.Clock.Now(), What: what, Since: at})
}

// lost reports whether what was done at a time may be lost.
func (c DoubtConfig) lost(at time.Time) bool {
	return !c.LostUntil.IsZero() && at.After(c.LostFrom.Add(-slack)) && at.Before(c.LostUntil.Add(slack))
}

// Strange reports whether a claim has the origin of a stranger's. One of another origin that is older
// than this one may be of this journal, too, before it was emptied, until the journal is adopted.
func (d *Doubt) Strange(id claim.ID) bool {
	if id.Origin() == d.origin {
		return false
	}
	made, _ := id.Minted()
	d.mu.Lock()
	defer d.mu.Unlock()
	return made.After(d.born) || d.adopted.After(d.born)
}

// meet records that a stranger's live claim was seen. It is stored at most once an hour.
func (d *Doubt) meet(ctx context.Context, t task.Task) {
	d.mu.Lock()
	before, now := d.stranger, d.Clock.Now()
	d.stranger = sighted{t.ClaimedBy, t.Title, now}
	news := now.Sub(before.At).Abs() > Beside
	store := now.Sub(d.storedAt).Abs() > hourly
	text, err := json.Marshal(d.stranger)
	line := d.line()
	d.mu.Unlock()
	if news && d.Policy.Exclusive {
		d.Log.Warn("a daemon with a journal of its own claims on this board: from now on claims are settled", claim.AttrReason, line)
	}
	if err == nil && store {
		err = d.Storage.SetMeta(context.WithoutCancel(ctx), metaStranger, string(text))
	}
	if err != nil {
		d.Log.Warn("that there is another daemon could not be stored", claim.AttrError, err)
	} else if store {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.storedAt = now
	}
}

// hourly is how often the sight of a stranger is stored. So a stored one may have been seen again up to
// an hour later.
const hourly = time.Hour

// Beside reports whether a stranger's claim was seen within the last day. It is false for nil.
func (d *Doubt) Beside() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Clock.Now().Sub(d.stranger.At).Abs() < Beside
}

// Stranger names the stranger that was seen within the last day, and says what to do; empty if there
// is none.
func (d *Doubt) Stranger() string {
	if !d.Beside() {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.line()
}

// line words the stranger. d.mu is held.
func (d *Doubt) line() string {
	line := fmt.Sprintf("a daemon with a journal of its own claims on this board: %s had %q at %s",
		d.stranger.Agent, d.stranger.Title, d.stranger.At.UTC().Format("15:04 UTC on Jan 2"))
	if d.Policy.Exclusive {
		line += "; claims here wait for claim.settle until none was seen for a day"
	}
	return line
}

// slack is how far a date in Notion may differ from the one noted: Notion truncates to the minute.
const slack = time.Minute

// contradiction says how the claim on the page of t contradicts the journal, and when what the
// journal lacks was done; empty if it does not, or if the journal cannot be read. The journal has every
// write to a page before it is sent, even writes that come too late or whose fate is unknown.
func (d *Doubt) contradiction(ctx context.Context, t task.Task, id claim.ID) (what string, at time.Time) {
	c, err := d.Claims.Find(ctx, id)
	switch {
	case errors.Is(err, claim.ErrUnknownClaim):
		at, _ = id.Minted()
		return "which it does not know", at
	case err != nil || c.Task.ID != t.ID:
		return "", at
	case c.ClaimedAt.IsZero():
		return "which it never had written", c.Reserved
	}
	last := c.ClaimedAt
	if c.Noted.After(last) {
		last = c.Noted
	}
	if t.ClaimedAt.After(last.Add(slack)) {
		return fmt.Sprintf("renewed at %s, which it knows of until %s only", t.ClaimedAt.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339)), t.ClaimedAt
	}
	return "", at
}

// raise raises a doubt and stores it. If it cannot be stored, it counts all the same, and is stored
// at the next occasion.
func (d *Doubt) raise(ctx context.Context, s *evidence) {
	d.mu.Lock()
	if d.reason == nil {
		d.reason = s
		defer func() {
			d.Log.Error("nothing is granted: the journal was restored to an older state, or emptied", claim.AttrReason, d.Why())
		}()
	}
	text, err := json.Marshal(d.reason)
	d.mu.Unlock()
	if err == nil {
		err = d.Storage.SetMeta(context.WithoutCancel(ctx), metaDoubt, string(text))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stored = err == nil
}

// Adopt ends the doubt: from now on the journal is trusted as it is, and earlier claims count as
// another daemon's, which last until their leases end. It reports whether there was a doubt.
func (d *Doubt) Adopt(ctx context.Context) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reason == nil {
		return false, nil
	}
	now := d.Clock.Now()
	err := d.Storage.SetMeta(ctx, metaAdopted, now.Format(time.RFC3339Nano))
	if err == nil {
		err = d.Storage.SetMeta(ctx, metaDoubt, "")
	}
	if err != nil {
		return false, err
	}
	d.reason, d.stored, d.adopted = nil, false, now
	return true, nil
}
