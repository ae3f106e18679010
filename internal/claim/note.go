package claim

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"dibs/internal/task"
)

// Sweeper signs what no person or agent asked for.
const Sweeper = "dibs"

// longestReason is the longest reason in a note, in characters. The log has all of it.
const longestReason = 1000

// What notes begin with.
const (
	noteDone      = "Done"
	noteBlocked   = "Blocked"
	noteFailed    = "Failed"
	noteTryAgain  = "Failed, to be tried again"
	noteGivenBack = "Given back"
	noteTaken     = "Taken back"
	noteReopened  = "Reopened"
	noteReview    = "In review"
	noteAsked     = "Asked"
	noteStuck     = "Stuck"
	noteCancelled = "Cancelled"
)

// noteForm matches the lines that noteLine makes.
var noteForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(` + strings.Join([]string{
		noteDone, noteBlocked, noteFailed, noteTryAgain, noteGivenBack, noteTaken, noteReopened, noteReview, noteAsked, noteStuck, noteCancelled,
	}, "|") + `)(?:: (.*))? — (.+), (\d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC)$`)
})

// noteLine returns one line that says what became of a task, why, and who says so. Its form
// lets us recognise it later.
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

// noteTime formats a time for people on the board, wherever they are.
func noteTime(t time.Time) string { return t.UTC().Format(noteMinute) }

const noteMinute = "2006-01-02 15:04 UTC"

// NoteLines finds the lines of a note that are ours. It returns the start and the end of each
// in bytes, including one of the line breaks that set it off. A line to which somebody added
// text is no longer ours.
func NoteLines(note string) [][2]int {
	var ours [][2]int
	for at := 0; at < len(note); {
		end := len(note)
		if i := strings.IndexByte(note[at:], '\n'); i >= 0 {
			end = at + i
		}
		next := min(end+1, len(note))
		if noteForm().MatchString(note[at:end]) {
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

// Saying is what a line of ours in a note says.
type Saying struct {
	what    string // what the line begins with
	Why, By string
	At      time.Time // to the minute
}

// LastSaying returns what our last line in a note says; false if it has none.
func LastSaying(note string) (Saying, bool) {
	lines := NoteLines(note)
	if len(lines) == 0 {
		return Saying{}, false
	}
	last := lines[len(lines)-1]
	part := noteForm().FindStringSubmatch(strings.Trim(note[last[0]:last[1]], "\n"))
	if part == nil {
		return Saying{}, false
	}
	at, err := time.Parse(noteMinute, part[4])
	return Saying{what: part[1], Why: part[2], By: part[3], At: at}, err == nil
}

// Asks reports whether the line is a question to people.
func (s Saying) Asks() bool { return s.what == noteAsked }

// About reports whether the line says why a task has that status. Later changes by people may have
// left an older line.
func (s Saying) About(status task.Status) bool {
	switch s.what {
	case noteDone:
		return status == task.Completed
	case noteBlocked, noteAsked:
		return status == task.Blocked
	case noteFailed: // a board may have no status for it
		return status == task.Failed || status == task.Blocked
	case noteReview:
		return status == task.Review
	case noteCancelled:
		return status == task.Cancelled
	case noteStuck:
		return status == task.Open
	}
	return false
}

// Noted returns a note in which line replaces our earlier lines: first what others wrote, then
// line.
func Noted(note, line string) string {
	var others strings.Builder
	at := 0
	for _, own := range NoteLines(note) {
		others.WriteString(note[at:own[0]])
		at = own[1]
	}
	others.WriteString(note[at:])
	return others.String() + NoteBreak(others.String()) + line
}

// NoteBreak returns the line break needed between a text and a line below it.
func NoteBreak(above string) string {
	if above == "" || strings.HasSuffix(above, "\n") {
		return ""
	}
	return "\n"
}
