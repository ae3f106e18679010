package runner

import (
	"time"

	"dibs/internal/api"
	"dibs/internal/task"
)

// later lists the tasks that commands gave back to be tried later. Each is passed over for a while,
// longer each time, so that a loop gets to the others.
type later struct {
	most  int // how often a task is tried; 0 for no limit
	tasks []postponed
	given []task.ID // given up
}

type postponed struct {
	id    task.ID
	times int
	due   time.Time
}

// mostLater limits the tasks passed over: as many as one request may name.
const mostLater = 1000

// add puts a task off. It returns how often that was, and when it is due again; or that it is given
// up, because it was tried often enough.
func (l *later) add(id task.ID) (times int, due api.Time, givenUp bool) {
	p := postponed{id: id}
	for i, known := range l.tasks {
		if known.id == id {
			p = known
			l.tasks = append(l.tasks[:i], l.tasks[i+1:]...)
			break
		}
	}
	p.due = time.Now().Add(min(longestPause, shortestPause<<min(p.times, 10)))
	p.times++
	if p.times == l.most {
		l.given = append(l.given, id)
		if len(l.given) > mostLater {
			l.given = l.given[1:]
		}
		return p.times, api.Time{}, true
	}
	l.tasks = append(l.tasks, p)
	if len(l.tasks)+len(l.given) > mostLater && len(l.tasks) > 0 {
		l.tasks = l.tasks[1:]
	}
	return p.times, api.Time{Time: p.due}, false
}

// pending returns the tasks still to be passed over, and the time until the first of them is due;
// zero if there is none.
func (l *later) pending() (ids []string, due time.Duration) {
	for _, id := range l.given {
		ids = append(ids, string(id))
	}
	for _, p := range l.tasks {
		left := time.Until(p.due)
		if left <= 0 {
			continue
		}
		ids = append(ids, string(p.id))
		if due == 0 || left < due {
			due = left
		}
	}
	return ids, due
}
