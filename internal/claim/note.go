package claim

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"dibs/internal/task"
)

// sweeper signs the notes of sweeps that nobody asked for.
const sweeper = "dibs"

// longestReason is how much of a reason goes into a note, in characters. The log has all
// of it.
const longestReason = 1000

// What notes begin with.
const (
	noteDone      = "Done"
	noteBlocked   = "Blocked"
	noteFailed    = "Failed"
	noteTryAgain  = "Failed, to be tried again"
	noteGivenBack = "Given back"
	noteReopened  = "Reopened"
	noteReview    = "In review"
)

// noteForm is the form of the lines that noteLine makes.
var noteForm = regexp.MustCompile(`^(` + strings.Join([]string{
	noteDone, noteBlocked, noteFailed, noteTryAgain, noteGivenBack, noteReopened, noteReview,
}, "|") + `)(: .*)? — .+, \d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC$`)

// noteLine says in one line what became of a task, why, and who says so. It has a form
// by which it is known for ours again.
func noteLine(what, why, by string, at time.Time) string {
	why = task.OneLine(why, -1)
	if r := []rune(why); len(r) > longestReason {
		why = string(r[:longestReason-1]) + "…"
	}
	if why != "" {
		what += ": " + why
	}
	return fmt.Sprintf("%s — %s, %s", what, by, noteTime(at))
}

// note is the line that the page is to show once cl.Finish is written.
func (c Hold) note() *string {
	what := map[Ending]string{
		EndCompleted: noteDone, EndBlocked: noteBlocked, EndFailed: noteFailed, EndReleased: noteGivenBack,
		EndReview: noteReview,
	}[c.Finish.As]
	if c.Finish.As == EndFailed && c.Finish.Reopen {
		what = noteTryAgain
	}
	why := c.Finish.Summary
	if c.Finish.History != "" {
		what, why = noteBlocked, c.Finish.History
	}
	if to := c.Finish.To; to != "" {
		why = strings.TrimSuffix("offered to "+to+": "+why, ": ")
	}
	return new(noteLine(what, why, c.Agent, c.Finish.At))
}

// sweptNote is the line that the page is to show once the stale claim that m covers is
// taken off it.
func (p Policy) sweptNote(m Mark, at time.Time) *string {
	if m.History != "" {
		return new(noteLine(noteBlocked, m.History, m.signature(), at))
	}
	why := fmt.Sprintf("the claim of %s ran out at %s", m.Agent, noteTime(p.LeaseEnd(m.Task)))
	return new(noteLine(noteReopened, why, m.signature(), at))
}

// noteTime is a moment as people read it on the board, wherever they are.
func noteTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// NoteLines finds the lines of a note that are ours, whole: each is where it begins and
// where it ends, in bytes, with one of the line breaks that set it off. A line that
// somebody has added to at either end is theirs.
func NoteLines(note string) [][2]int {
	var ours [][2]int
	for at := 0; at < len(note); {
		end := len(note)
		if i := strings.IndexByte(note[at:], '\n'); i >= 0 {
			end = at + i
		}
		next := min(end+1, len(note))
		if noteForm.MatchString(note[at:end]) {
			from := at
			if next == end && from > 0 { // the last line: the break before it goes with it
				from--
			}
			if n := len(ours); n > 0 && from < ours[n-1][1] {
				from = ours[n-1][1]
			}
			ours = append(ours, [2]int{from, next})
		}
		at = end + 1
	}
	return ours
}

// Noted is the text of a note once line, which is ours, has taken the place of those
// lines of ours that are in it: what others wrote, and the line below it.
func Noted(note, line string) string {
	var kept strings.Builder
	at := 0
	for _, own := range NoteLines(note) {
		kept.WriteString(note[at:own[0]])
		at = own[1]
	}
	kept.WriteString(note[at:])
	return kept.String() + NoteBreak(kept.String()) + line
}

// NoteBreak is what sets a line off from the text above it.
func NoteBreak(above string) string {
	if above == "" || strings.HasSuffix(above, "\n") {
		return ""
	}
	return "\n"
}
