package runner

import (
	"strings"
	"sync"
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
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - tailBytes; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// text returns the last lines, without characters that control a terminal.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(t.data), "")) {
		if line = strings.TrimSpace(task.OneLine(line, unicode.ReplacementChar)); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
