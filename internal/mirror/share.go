package mirror

import (
	"sync"
	"time"
)

// lookBurst is how many requests because of events may come at once.
const lookBurst = 5

// share is the part of Notion's rate that quick syncs and looks have together: on average one
// request in a time that Source.Room gives. It only counts: whoever is not in a hurry need not ask.
type share struct {
	mu   sync.Mutex
	used time.Time // until when the share is used up
}

// spend counts n requests that were sent.
func (s *share) spend(n int, apart time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if least := time.Now().Add(-lookBurst * apart); s.used.Before(least) {
		s.used = least
	}
	s.used = s.used.Add(time.Duration(n) * apart)
}

// wait returns how long it is until one more request is within the share; zero or less for now.
func (s *share) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.used)
}
