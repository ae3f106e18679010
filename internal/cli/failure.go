package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/cluster"

	"github.com/spf13/cobra"
)

// ended is the exit code of a command that has printed everything already.
type ended struct{ code int }

func (e ended) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// misconfigured is an error that a setting of the configuration mends: exit code 2.
type misconfigured interface {
	error
	Setting() string
}

// fail prints why a command failed and returns its exit code.
func (a *app) fail(ctx context.Context, cmd *cobra.Command, err error) int {
	if e, ok := errors.AsType[ended](err); ok {
		return e.code
	}
	p := problemOf(ctx, cmd, err)
	exit := p.Code.Exit()
	asked := a.json || (a.document || a.changes) && !a.person()
	if written := asked && writeJSON(a.stdout, p) == nil; written && a.json && a.document {
		return exit
	}
	for line := range strings.Lines(cmp.Or(p.Detail, p.Title, string(p.Code))) {
		fmt.Fprintf(a.stderr, "dibs: %s\n", explain(p, a.program(), line, time.Now()))
	}
	if p.Code == api.CodeUsage {
		fmt.Fprintf(a.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return exit
}

// problemOf converts an error to the form of the daemon's problems.
func problemOf(ctx context.Context, cmd *cobra.Command, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[misconfigured](err); ok {
		return api.NewProblem(api.CodeInvalidRequest, err.Error())
	}
	if failed, ok := errors.AsType[*claim.StoreError](err); ok {
		if failed.Kind == claim.Unavailable {
			p := api.NewProblem(api.Code(claim.CodeNotionUnavailable), err.Error())
			p.RetryIn(failed.RetryAfter)
			return p
		}
		return api.NewProblem(api.CodeNotionRefused, err.Error())
	}
	if failed, ok := errors.AsType[*claim.JournalError](err); ok {
		p := api.NewProblem(api.Code(claim.CodeJournalUnavailable), err.Error())
		p.RetryIn(failed.RetryAfter)
		return p
	}
	_, away := errors.AsType[*client.UnreachableError](err)
	_, impostor := errors.AsType[*client.ImpostorError](err)
	if away || impostor {
		return api.NewProblem(api.CodeUnreachable, err.Error())
	}
	_, usage := errors.AsType[*usageError](err)
	_, others := errors.AsType[*cluster.DatabasesError](err)
	if usage || others {
		return api.NewProblem(api.CodeUsage, err.Error())
	}
	var name string
	if _, scanErr := fmt.Sscanf(err.Error(), "unknown command %q for", &name); scanErr == nil {
		return api.NewProblem(api.CodeUsage, unknownCommand(cmd, name))
	}
	if ctx.Err() != nil {
		return api.NewProblem(api.CodeFailed, fmt.Sprintf("stopped: %v", context.Cause(ctx)))
	}
	return api.NewProblem(api.CodeFailed, err.Error())
}

func unknownCommand(cmd *cobra.Command, name string) string {
	if instead, ok := gone[name]; ok {
		return fmt.Sprintf("dibs %s is gone: %s", name, instead)
	}
	message := fmt.Sprintf("there is no command %q", name)
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		message += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return message
}

// explain returns one line that says what a problem means for the person or agent that has it, and
// what to do. program is how dibs is called, detail the line of p.Detail to start from.
func explain(p *api.Problem, program, detail string, now time.Time) string {
	text := clean(detail)
	if p.Code == api.CodeClaimLost && p.Claim != nil && p.Claim.Outcome == claim.EndLost && !p.Claim.EndedAt.IsZero() {
		why, rest, more := strings.Cut(text, "; nothing was done to")
		text = why + ", at " + clock(p.Claim.EndedAt.Time, now)
		if more {
			text += "; nothing was done to" + rest
		}
	}
	if strings.Contains(text, notReopened) {
		return text // the request was not for a task to claim
	}
	switch claim.Code(p.Code) {
	case claim.CodeHeld:
		if p.Holder != "" && p.Task != nil {
			text = fmt.Sprintf("%s is held by %s%s", quoted(*p.Task), clean(p.Holder), lasting(p.ExpiresAt, now))
		}
		text = suggest(text, program+" next")
	case claim.CodeReserved:
		if p.Pattern != "" { // of a file, not a task
			by := "is reserved by " + clean(p.Holder)
			return strings.Replace(text, by, by+lasting(p.ExpiresAt, now), 1)
		}
		text = suggest(text, program+" next")
	case claim.CodeNotOpen, claim.CodeLostRace, claim.CodeBlockedByDependency, claim.CodeNotOffered:
		text = suggest(text, program+" next")
	case claim.CodeLimitReached:
		if len(p.Claims) > 0 {
			text = limitReached(p.Claims, now)
		} else {
			text = barredUntil(text, p.ExpiresAt, now)
		}
	case claim.CodePaused:
		text = suggest(barredUntil(text, p.ExpiresAt, now), program+" next --wait 10m")
	case claim.CodeNothingReady:
		if s := p.Summary; s != nil && !s.NextLeaseEndsAt.IsZero() {
			before, after, _ := strings.Cut(text, tryLater)
			text = before + "; the next lease ends at " + clock(s.NextLeaseEndsAt.Time, now) + ", in " + length(s.NextLeaseEndsAt.Sub(now))
			if after != "" {
				text += tryLater + after
			}
		}
		text = suggest(text, program+" next --wait 10m")
	case claim.CodeNotionUnavailable, claim.CodeJournalUnavailable:
		if p.RetryAfter > 0 {
			text = strings.TrimSuffix(text, tryLater) + fmt.Sprintf(" (try again in %ds)", p.RetryAfter)
		}
	}
	return text
}

// barredUntil adds when it ends that nothing is granted.
func barredUntil(text string, end api.Time, now time.Time) string {
	why, advice, found := strings.Cut(text, meanwhile)
	if found {
		advice = meanwhile + advice
	}
	return why + lasting(end, now) + advice
}

// meanwhile begins the daemon's advice to an agent that is granted nothing for now.
const meanwhile = "; go on with what you hold"

// limitReached lists what an agent holds that has reached its limit.
func limitReached(claims []api.Claim, now time.Time) string {
	var held []string
	for i, c := range claims {
		if i == maxHeld {
			held = append(held, fmt.Sprintf("and %d more", len(claims)-i))
			break
		}
		held = append(held, heldUntil(c, now))
	}
	return clean(claims[0].Agent) + " holds as many tasks as it may: " + strings.Join(held, "; ") + "; finish or release one first"
}

// maxHeld is how many of an agent's tasks are named in a line.
const maxHeld = 5

// notReopened is how the daemon says that it did not reopen a task.
const notReopened = " was not reopened: "

// tryLater is how the daemon ends a refusal that may soon no longer apply.
const tryLater = "; try again later"

// instead is how the daemon tells a client to take another task. For a person the command replaces
// it.
const instead = "; ask for the next ready task instead"

// suggest adds a command to try, unless the text names it.
func suggest(text, command string) string {
	if strings.Contains(text, command) {
		return text
	}
	text = strings.TrimSuffix(text, instead)
	return strings.TrimSuffix(text, ".") + "; try: " + command
}
