package task_test

import (
	"regexp"
	"testing"

	"dibs/internal/task"
)

func TestNameSuffix(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z0-9]{4}$`)
	seen, letters := make(map[string]bool), make(map[rune]int)
	const draws = 9000
	for range draws {
		suffix := task.NameSuffix()
		if !form.MatchString(suffix) {
			t.Fatalf("suffix %q", suffix)
		}
		seen[suffix] = true
		for _, letter := range suffix {
			letters[letter]++
		}
	}
	// Of 9000 out of 1.7 million, some two dozen are drawn twice.
	if len(seen) < draws-100 {
		t.Errorf("%d different suffixes in %d draws", len(seen), draws)
	}
	if len(letters) != 36 {
		t.Errorf("%d letters and digits, want 36", len(letters))
	}
	for letter, n := range letters { // 1000 of each; the deviation is 31
		if n < 750 || n > 1250 {
			t.Errorf("%c was drawn %d times, want about 1000", letter, n)
		}
	}
}

func TestNextName(t *testing.T) {
	m := task.Mint{Suffix: func() string { return "7K9X" }}
	if got := m.Next(); got != "agent-7K9X" {
		t.Errorf("name %q", got)
	}
}
