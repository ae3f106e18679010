package runner

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"dibs/internal/task"
)

// How much of a command's last output becomes the reason of its failure.
const (
	tailBytes = 4096
	tailLines = 10
)

// tail keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	data []byte
	at   time.Time // of the last input
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > 0 {
		t.at = time.Now()
	}
	t.data = append(t.data, p...)
	if over := len(t.data) - tailBytes; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// last returns the last line that is not empty, without what controls a terminal.
func (t *tail) last() string {
	lines := strings.Split(t.text(), "\n")
	return lines[len(lines)-1]
}

// wrote returns when the last input came.
func (t *tail) wrote() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// text returns the last lines, without what controls a terminal.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(task.Plain(strings.ToValidUTF8(string(t.data), ""))) {
		if line = strings.TrimSpace(task.OneLine(line, unicode.ReplacementChar)); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
