package notion

import (
	"time"

	"dibs/internal/task"
)

// memory is how long what a page showed is remembered. A page is read right
// before it is written.
const memory = time.Hour

// lately remembers something of the pages that were read lately. It is not safe for
// concurrent use.
type lately[V any] struct {
	of map[task.ID]seen[V]
	// full is how many there may be. When there are more, or memory has passed since tidied,
	// the old ones are forgotten.
	full   int
	tidied time.Time
}

type seen[V any] struct {
	value V
	at    time.Time
}

func (l *lately[V]) put(id task.ID, v V) {
	now := time.Now()
	if len(l.of) >= l.full || now.Sub(l.tidied) > memory {
		for id, s := range l.of {
			if now.Sub(s.at) > memory {
				delete(l.of, id)
			}
		}
		l.full, l.tidied = 2*len(l.of)+64, now
	}
	if l.of == nil {
		l.of = make(map[task.ID]seen[V])
	}
	l.of[id] = seen[V]{v, now}
}

func (l *lately[V]) get(id task.ID) (V, bool) {
	s, ok := l.of[id]
	return s.value, ok
}

func (l *lately[V]) forget(id task.ID) { delete(l.of, id) }
