package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// ClaimArgs are the arguments of claim_task.
type ClaimArgs struct {
	Who
	Task string `json:"task,omitempty" jsonschema:"its id, key or URL"`
	api.Filter
	Wait    float64 `json:"wait_seconds,omitempty" jsonschema:"wait for it so long"`
	Content bool    `json:"content,omitempty" jsonschema:"with its page"`
	Minutes int     `json:"timeout_minutes,omitempty"`
}

// Granted is the answer of claim_task.
type Granted struct {
	Claim     claim.ID      `json:"claim_id"`
	Task      Task          `json:"task"`
	ExpiresAt api.Time      `json:"expires_at"`
	Fence     int64         `json:"fence,omitempty"`
	Former    string        `json:"former,omitempty"`
	DoneWhen  string        `json:"done_when,omitempty"`
	Attempts  []api.Attempt `json:"attempts,omitempty"`
	WrittenBy string        `json:"written_by,omitempty"`
	Content   string        `json:"content,omitempty"`
	Comments  []api.Comment `json:"comments,omitempty"`
	Missing   string        `json:"missing,omitempty"`
	News
}

func grantedOf(c api.Claim) Granted {
	return Granted{Claim: c.ID, Task: taskOf(c.Task), ExpiresAt: c.ExpiresAt, Fence: c.Fence, Former: line(c.Former), DoneWhen: line(c.Task.DoneWhen), Attempts: c.Task.Attempts}
}

func claimTask(c *call, in ClaimArgs) (string, Granted, error) {
	id, err := taskID(in.Task)
	if err != nil {
		return "", Granted{}, err
	}
	if in.Wait < 0 || in.Wait > api.MaxWait.Seconds() {
		return "", Granted{}, usagef("wait_seconds: want 0 to %.0f", api.MaxWait.Seconds())
	}
	if in.Minutes < 0 {
		return "", Granted{}, usagef("timeout_minutes: want whole minutes, 1 or more")
	}
	ctx, done := c.Context, func() {}
	if in.Wait > 0 {
		ctx, done = c.waiting()
		c.background.Go(func() { c.progress(ctx, seconds(in.Wait), "no task yet") })
	}
	defer done()
	// Without a key, a caller that goes away gets nothing: the daemon releases a claim that is
	// granted all the same.
	ask := func() (api.Claim, error) {
		return client.Do(ctx, c.daemon, api.OpClaim, api.Keyed("", api.ClaimRequest{
			Agent: c.agent.name, Task: string(id), Filter: in.Filter, TimeoutMinutes: in.Minutes, WaitSeconds: in.Wait, Keeper: c.keeper(), Repository: c.options.Repository,
		}))
	}
	cl, err := ask()
	if c.isRemote(err) {
		cl, err = ask()
	}
	if err == nil && ctx.Err() != nil {
		c.giveBack(cl, "the call that asked for it was cancelled", true)
		return "", Granted{}, context.Cause(ctx)
	}
	if err != nil {
		return "", Granted{}, err
	}
	c.agent.granted(cl)
	out := grantedOf(cl)
	read := "Read it with show_task; end"
	if in.Content {
		read = "End"
	}
	text := fmt.Sprintf("You hold %s%s. %s with finish_task.", called(out.Task), lasting(cl.ExpiresAt), read)
	if c.options.Hosted != "" {
		text += " Each call renews it."
	}
	if cl.Override {
		text += " " + out.Former + " had it before, and let the lease run out: look for work that is half done."
	}
	text += doneText(out.DoneWhen) + attemptsText(out.Attempts)
	if in.Content {
		page := c.page(cl.Task.ID)
		out.WrittenBy, out.Comments, out.Missing = page.WrittenBy, page.Comments, missing(page)
		if page.Content != nil {
			out.Content = *page.Content
		}
		text += "\n" + byOthers + "\n\n" + pageText(page)
	}
	return text, out, nil
}

// pageWait is how long to wait for a claimed task's page. The daemon gives up earlier, and says why.
const pageWait = 15 * time.Second

// page returns the page of a claimed task. The claim is valid without it.
func (c *call) page(id task.ID) api.Page {
	ctx, cancel := context.WithTimeout(c, pageWait)
	defer cancel()
	t, err := client.Do(ctx, c.daemon, api.OpGetTaskContent, api.GetTaskInput{ID: string(id)})
	if err != nil {
		return api.Unread(err)
	}
	return shortened(t.Page)
}

// giveBack releases a claim. unheard says that the agent never heard that it was granted.
func (b *Bridge) giveBack(cl api.Claim, reason string, unheard bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.over), linger)
	defer cancel()
	daemon, err := b.options.Daemon()
	if err == nil {
		_, err = client.Do(ctx, daemon, api.OpRelease, api.On(string(cl.ID), "mcp back "+string(cl.ID), api.StopRequest{Agent: cl.Agent, Reason: reason, Unheard: unheard}))
	}
	if err != nil {
		b.options.Log.Warn("a claim could not be given back: it is kept until its lease ends, or until dibs mcp does", "claim", cl.ID, "reason", reason, "error", err)
	}
}

// FinishArgs are the arguments of finish_task.
type FinishArgs struct {
	Who
	Task    string `json:"task,omitempty" jsonschema:"default: your only one"`
	Outcome string `json:"outcome" jsonschema:"completed|blocked|failed|released|review"`
	Summary string `json:"summary,omitempty" fit:"exact" jsonschema:"what was done, or why not"`
	Usage   string `json:"usage,omitempty" jsonschema:"in all: tokens=N,usd=X"`

	Evidence []string `json:"evidence,omitempty" fit:"exact"`
}

// Finished is the answer of finish_task.
type Finished struct {
	Task    Task   `json:"task"`
	Outcome string `json:"outcome"`
	api.Owed
	News
}

// owedText says what is owed to Notion, as the end of an answer.
func owedText(o api.Owed) string {
	if !o.Pending {
		return ""
	}
	return " PENDING: accepted, and Notion has yet to be told. Not known is " + o.Unknown + "; if so, it comes to nothing, and CLAIM LOST will say so."
}

func finishTask(c *call, in FinishArgs) (string, Finished, error) {
	cl, err := c.mine(in.Task)
	if err != nil {
		return "", Finished{}, err
	}
	var used api.Used
	if in.Usage != "" {
		if used.Usage, err = api.ParseUsage(in.Usage); err != nil {
			return "", Finished{}, usagef("usage: %v", err)
		}
	}
	// Repeated with the same key, the daemon does nothing twice and answers the same.
	sum := sha256.Sum256([]byte(strings.Join(append([]string{in.Summary, in.Usage}, in.Evidence...), "\x00")))
	key := fmt.Sprintf("mcp %s %s %x", cl.ID, in.Outcome, sum)
	ended, err := c.ending(cl, func() (api.Claim, error) { return c.finish(string(cl.ID), in, used, key) })
	if err != nil {
		return "", Finished{}, err
	}
	out := Finished{Task: taskOf(ended.Task), Outcome: cmp.Or(string(ended.Outcome), in.Outcome), Owed: ended.Owed}
	return fmt.Sprintf("%s: %s.", called(out.Task), out.Outcome) + owedText(out.Owed), out, nil
}

// ending ends a claim at the daemon. That is no news to the agent, unless it fails.
func (c *call) ending(cl api.Claim, end func() (api.Claim, error)) (api.Claim, error) {
	c.agent.done(cl.ID)
	ended, err := insist(c, end)
	if err == nil && ended.State == claim.Finishing {
		c.agent.learns(ended)
	}
	if p, refused := errors.AsType[*api.Problem](err); err != nil && (!refused || p.Code != api.CodeClaimLost) {
		c.agent.granted(cl)
	}
	return ended, err
}

// finish ends a claim with one of the outcomes that the tool's schema lists.
func (c *call) finish(id string, in FinishArgs, used api.Used, key string) (api.Claim, error) {
	switch agent := c.agent.name; in.Outcome {
	case "completed":
		return client.Do(c, c.daemon, api.OpComplete, api.On(id, key, api.CompleteRequest{Agent: agent, Summary: in.Summary, Evidence: in.Evidence, Used: used}))
	case "released":
		return client.Do(c, c.daemon, api.OpRelease, api.On(id, key, api.StopRequest{Agent: agent, Reason: in.Summary, Used: used}))
	case "blocked":
		return client.Do(c, c.daemon, api.OpBlock, api.On(id, key, api.BlockRequest{Agent: agent, Reason: in.Summary, Used: used}))
	case "failed":
		return client.Do(c, c.daemon, api.OpFail, api.On(id, key, api.FailRequest{Agent: agent, Reason: in.Summary, Used: used}))
	default:
		return client.Do(c, c.daemon, api.OpReview, api.On(id, key, api.ReviewRequest{Agent: agent, Note: in.Summary, Used: used}))
	}
}

// UpdateArgs are the arguments of update_claim.
type UpdateArgs struct {
	Who
	Task    string `json:"task,omitempty"`
	OfferTo string `json:"offer_to,omitempty" jsonschema:"the agent to hand it to"`
	Decline bool   `json:"decline,omitempty"`
	Text    string `json:"text,omitempty" fit:"exact" jsonschema:"said with it"`
}

// Updated is the answer of update_claim.
type Updated struct {
	Task      Task     `json:"task"`
	Claim     claim.ID `json:"claim_id,omitempty"`
	ExpiresAt api.Time `json:"expires_at,omitzero"` // the claim, or the offer
	api.Owed
	News
}

func updateClaim(c *call, in UpdateArgs) (string, Updated, error) {
	switch {
	case in.Decline && in.OfferTo != "":
		return "", Updated{}, usagef("decline and offer_to exclude each other: leave one of them out")
	case in.Decline:
		return decline(c, in)
	}
	cl, err := c.mine(in.Task)
	if err != nil {
		return "", Updated{}, err
	}
	if in.OfferTo != "" {
		c.agent.done(cl.ID)
		offered, err := insist(c, func() (api.Offered, error) {
			return client.Do(c, c.daemon, api.OpOffer, api.OnTask(cl.Task.ID, "mcp offer "+string(cl.ID), api.OfferRequest{Agent: c.agent.name, To: in.OfferTo, Text: in.Text}))
		})
		if err != nil {
			c.agent.granted(cl)
			return "", Updated{}, err
		}
		out := Updated{Task: taskOf(offered.Task), Owed: offered.Owed}
		if out.Pending {
			cl.State, cl.Outcome = claim.Finishing, claim.EndReleased
			c.agent.learns(cl)
		}
		if offered.Offer != nil {
			out.ExpiresAt = offered.Offer.ExpiresAt
		}
		return fmt.Sprintf("%s is offered to %s%s; it is yours no longer.", called(out.Task), line(in.OfferTo), lasting(out.ExpiresAt)) + owedText(out.Owed), out, nil
	}
	renewal := api.RenewRequest{Agent: c.agent.name, Progress: in.Text, Keeper: c.keeper()}
	renewed, err := client.Do(c, c.daemon, api.OpRenew, api.On(string(cl.ID), "", renewal))
	if c.isRemote(err) {
		renewal.Keeper = api.Keeper{}
		renewed, err = client.Do(c, c.daemon, api.OpRenew, api.On(string(cl.ID), "", renewal))
	}
	if err != nil {
		return "", Updated{}, err
	}
	c.agent.granted(renewed)
	out := Updated{Task: taskOf(renewed.Task), Claim: renewed.ID, ExpiresAt: renewed.ExpiresAt, Owed: renewed.Owed}
	text := fmt.Sprintf("You hold %s%s.", called(out.Task), lasting(out.ExpiresAt))
	if renewed.Detail != "" {
		text += " " + line(renewed.Detail)
	}
	return text, out, nil
}

// decline refuses a task that is offered to the agent.
func decline(c *call, in UpdateArgs) (string, Updated, error) {
	id, err := taskID(in.Task)
	if err == nil && id == "" {
		err = usagef("which task do you decline? name it in task")
	}
	if err != nil {
		return "", Updated{}, err
	}
	declined, err := insist(c, func() (api.Offered, error) {
		return client.Do(c, c.daemon, api.OpDecline, api.OnTask(id, newKey(), api.DeclineRequest{Agent: c.agent.name, Reason: in.Text}))
	})
	if err != nil {
		return "", Updated{}, err
	}
	out := Updated{Task: taskOf(declined.Task), Owed: declined.Owed}
	return fmt.Sprintf("%s is declined.", called(out.Task)) + owedText(out.Owed), out, nil
}

// AddArgs are the arguments of add_task.
type AddArgs struct{ api.AddRequest }

func (in AddArgs) who() string { return in.Agent }

// Added is the answer of add_task.
type Added struct {
	Task Task   `json:"task"`
	URL  string `json:"url,omitempty"`
	News
}

func addTask(c *call, in AddArgs) (string, Added, error) {
	in.Agent = c.agent.name
	key := newKey()
	added, err := insist(c, func() (api.Added, error) {
		return client.Do(c, c.daemon, api.OpAddTask, api.AddInput{Key: key, Body: in.AddRequest})
	})
	if err != nil {
		return "", Added{}, err
	}
	out := Added{Task: listedTask(added.Task), URL: added.Task.URL}
	return fmt.Sprintf("Added %s.", taskLine(out.Task)), out, nil
}

// CommentArgs are the arguments of comment.
type CommentArgs struct {
	Task string `json:"task,omitempty" jsonschema:"default: the one you hold"`
	api.CommentRequest
	Ask bool `json:"ask,omitempty"`
}

func (in CommentArgs) who() string { return in.Agent }

// Commented is the answer of comment.
type Commented struct {
	Task Task `json:"task"`
	api.Owed
	News
}

func comment(c *call, in CommentArgs) (string, Commented, error) {
	if in.Ask {
		return ask(c, in)
	}
	id, err := taskID(in.Task)
	if err == nil && id == "" {
		var cl api.Claim
		cl, err = c.mine("")
		id = cl.Task.ID
	}
	if err != nil {
		return "", Commented{}, err
	}
	in.Agent = c.agent.name
	key := newKey()
	sum, err := insist(c, func() (api.Commented, error) {
		return client.Do(c, c.daemon, api.OpComment, api.OnTask(id, key, in.CommentRequest))
	})
	if err != nil {
		return "", Commented{}, err
	}
	out := Commented{Task: taskOf(sum.Task), Owed: api.Owed{Pending: sum.Detail != ""}}
	text := fmt.Sprintf("Commented on %s.", called(out.Task))
	if out.Pending {
		text += " Not on the page yet: " + line(sum.Detail)
	}
	return text, out, nil
}

// ask asks people a question, and ends the claim until they answer.
func ask(c *call, in CommentArgs) (string, Commented, error) {
	cl, err := c.mine(in.Task)
	if err != nil {
		return "", Commented{}, err
	}
	key := newKey()
	ended, err := c.ending(cl, func() (api.Claim, error) {
		return client.Do(c, c.daemon, api.OpAsk, api.On(string(cl.ID), key, api.AskRequest{Agent: c.agent.name, Text: in.Text, To: in.Mention}))
	})
	if err != nil {
		return "", Commented{}, err
	}
	out := Commented{Task: taskOf(ended.Task), Owed: ended.Owed}
	return fmt.Sprintf("Asked on %s, which is blocked and yours no longer; the answer comes to your inbox.", called(out.Task)) + owedText(out.Owed), out, nil
}
