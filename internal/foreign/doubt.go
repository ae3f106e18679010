package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/task"
)

// The keys under which a doubt, and its end, are kept in the journal.
const (
	metaDoubt   = "doubt"
	metaAdopted = "adopted"
)

// adviceRestored is what to do about a doubt.
const adviceRestored = "nothing is granted: see that no daemon with the newer database runs, then run dibs cluster adopt as the daemon's user"

// Doubt is whether the journal is as this daemon and its kin left it. A database that was
// restored to an older state, or emptied, does not know of claims that the board shows, or knows
// them otherwise: it cannot tell what is held, owed, or done. It is safe for concurrent use.
type Doubt struct {
	DoubtConfig

	mu      sync.Mutex
	bot     string    // who this daemon is to Notion; empty if that is not known
	seen    *evidence // why there is a doubt; nil if there is none
	stored  bool      // in the journal
	adopted time.Time // Notion's time: what was claimed before is taken for another daemon's
}

// DoubtConfig is what a Doubt is made of. All of it is required.
type DoubtConfig struct {
	Claims Claims
	// Policy says whether the lease that a page shows is over.
	Policy claim.Policy
	// Storage keeps the doubt.
	Storage interface {
		Meta(ctx context.Context, key string) (string, error)
		SetMeta(ctx context.Context, key, value string) error
	}
	Clock clock.Source
	Log   *slog.Logger
}

// sight is a claim that was seen and ought not to be there.
type evidence struct {
	Task  task.ID   `json:"task"`
	Title string    `json:"title"`
	Claim claim.ID  `json:"claim"`
	Agent string    `json:"agent"`
	At    time.Time `json:"at"`
	What  string    `json:"what"`
}

// OpenDoubt returns the doubt as it was kept.
func OpenDoubt(ctx context.Context, c DoubtConfig) (*Doubt, error) {
	d := &Doubt{DoubtConfig: c}
	kept, err := c.Storage.Meta(ctx, metaDoubt)
	if err != nil {
		return nil, err
	}
	if kept != "" {
		if err := json.Unmarshal([]byte(kept), &d.seen); err != nil {
			return nil, fmt.Errorf("the doubt of the journal: %w", err)
		}
		d.stored = true
	}
	adopted, err := c.Storage.Meta(ctx, metaAdopted)
	if err == nil && adopted != "" {
		d.adopted, err = time.Parse(time.RFC3339Nano, adopted)
	}
	return d, err
}

// Why says why nothing may be granted, as a *claim.JournalError without a time to try again;
// nil if there is no doubt, as for a nil Doubt.
func (d *Doubt) Why() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		return nil
	}
	return &claim.JournalError{Err: fmt.Errorf("the journal's database was restored to an older state, or emptied: %q (%s) shows claim %s of %s, %s; %s",
		d.seen.Title, d.seen.Task, d.seen.Claim, d.seen.Agent, d.seen.What, adviceRestored)}
}

// Bot is who this daemon is to Notion, and empty as long as that is not known: then nothing is
// found out about a claim that the journal does not have as a page shows it.
func (d *Doubt) Bot() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bot
}

// SetBot says who this daemon is to Notion.
func (d *Doubt) SetBot(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bot = id
}

// See looks whether a page shows that the journal is not as it was left. What cannot be found
// out now is when the page is seen again.
func (d *Doubt) See(ctx context.Context, t task.Task) {
	if d == nil {
		return
	}
	d.mu.Lock()
	done, adopted, bot := d.seen != nil && d.stored, d.adopted, d.bot
	d.mu.Unlock()
	token := claim.ParseToken(t.Token)
	if done || t.Trashed || t.EditedBy == "" || t.Status != task.Open && t.Status != task.InProgress || // no claim there is live
		token.ID == "" || token.Void || token.Done || t.ClaimedBy == "" || t.ClaimedAt.IsZero() || d.Policy.Stale(t, d.Clock.Now()) {
		return
	}
	what := d.contradiction(ctx, t, token.ID)
	// A person who copies a page, or writes on it, restores nothing.
	if made, _ := token.ID.Minted(); what == "" || bot != t.EditedBy || !made.After(adopted) && !t.ClaimedAt.After(adopted) {
		return
	}
	d.raise(ctx, &evidence{Task: t.ID, Title: t.Title, Claim: token.ID, Agent: t.ClaimedBy, At: d.Clock.Now(), What: what})
}

// slack is by how much what Notion shows of a moment may differ from what was noted: it cuts
// dates to the minute.
const slack = time.Minute

// strange says what there is about a claim on the page of t that the journal cannot have
// forgotten; nothing if all is well, or cannot be asked. Whatever is written to a page was
// journalled before, also what came too late, or of which nobody knows what became.
func (d *Doubt) contradiction(ctx context.Context, t task.Task, id claim.ID) string {
	c, err := d.Claims.Find(ctx, id)
	switch {
	case errors.Is(err, claim.ErrUnknownClaim):
		return "which it does not know"
	case err != nil || c.Task.ID != t.ID:
		return ""
	case c.ClaimedAt.IsZero():
		return "which it never had written"
	}
	last := c.ClaimedAt
	if c.Noted.After(last) {
		last = c.Noted
	}
	if t.ClaimedAt.After(last.Add(slack)) {
		return fmt.Sprintf("renewed at %s, which it knows of until %s only", t.ClaimedAt.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
	}
	return ""
}

// raise notes a doubt. What cannot be stored counts all the same, and is stored at the next
// sight.
func (d *Doubt) raise(ctx context.Context, s *evidence) {
	d.mu.Lock()
	if d.seen == nil {
		d.seen = s
		defer func() {
			d.Log.Error("nothing is granted: the journal's database was restored to an older state, or emptied", "why", d.Why())
		}()
	}
	kept, err := json.Marshal(d.seen)
	d.mu.Unlock()
	if err == nil {
		err = d.Storage.SetMeta(context.WithoutCancel(ctx), metaDoubt, string(kept))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stored = err == nil
}

// Adopt ends the doubt: the journal counts as it is, and what was claimed before is from now on
// taken for the claims of another daemon, whose leases decide. It reports whether there was one.
func (d *Doubt) Adopt(ctx context.Context) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
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
	d.seen, d.stored, d.adopted = nil, false, now
	return true, nil
}
