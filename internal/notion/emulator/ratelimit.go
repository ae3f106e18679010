package emulator

import "time"

// windowLength is the length of Notion's rate-limit windows.
const windowLength = time.Minute

// window counts the requests of one connection in fixed windows, back to back
// from the first request on.
type window struct {
	limit int // 0 for any
	start time.Time
	count int
}

// admit counts a request that arrives now, or returns the refusal.
func (e *Emulator) admit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.admit(time.Now())
}

func (w *window) admit(now time.Time) error {
	if w.limit <= 0 {
		return nil
	}
	if w.start.IsZero() {
		w.start = now
	}
	if passed := now.Sub(w.start) / windowLength; passed > 0 {
		w.start, w.count = w.start.Add(passed*windowLength), 0
	}
	if w.count >= w.limit {
		return rateLimited("public_api_request_rate_limit", w.start.Add(windowLength).Sub(now))
	}
	w.count++
	return nil
}
