package notion

import "time"

// memory is how long something about a page is remembered. A page is read right before it is
// written.
const memory = time.Hour

// lately is a cache of something about recently read pages. It is not safe for concurrent use.
type lately[K comparable, V any] struct {
	of map[K]seen[V]
	// full limits the entries. When it is reached, or memory has passed since tidied, old ones are
	// dropped.
	full   int
	tidied time.Time
}

type seen[V any] struct {
	value V
	at    time.Time
}

func (l *lately[K, V]) put(id K, v V) {
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
		l.of = make(map[K]seen[V])
	}
	l.of[id] = seen[V]{v, now}
}

func (l *lately[K, V]) get(id K) (V, bool) {
	s, ok := l.of[id]
	return s.value, ok
}

func (l *lately[K, V]) forget(id K) { delete(l.of, id) }
