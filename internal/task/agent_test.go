package task_test

import (
	"regexp"
	"strings"
	"testing"

	"dibs/internal/task"
)

func TestValidateAgent(t *testing.T) {
	for _, name := range []string{
		"Sandman",
		"claude-chat-7K9X",
		"Zoë B.",
		"..7",
		"夢",
		"user",
		"username",
		strings.Repeat("é", 100), // characters, not bytes
	} {
		if err := task.ValidateAgent(name); err != nil {
			t.Errorf("ValidateAgent(%q) = %v, want nil", name, err)
		}
	}
	for _, tt := range []struct{ name, want string }{
		{"", "empty"},
		{"auto", "asks for one to be minted"},
		{"all", "goes to everybody"},
		{strings.Repeat("é", 101), "101 characters"},
		{"Sand\xffman", "not valid UTF-8"},
		{"Sand\nman", "control character"},
		{"Sand\x1b[31mman", "control character"},
		{"Sand\u0085man", "control character"},
		{"..", "cannot stand in a path"},
		{".", "cannot stand in a path"},
		{"Bad/Name", "cannot stand in a path"},
		{`Bad\Name`, "cannot stand in a path"},
		{"user ada", "signs for a user"},
		{"User 1000", "signs for a user"},
		{" Sandman", "space"},
		{"Sandman\u00a0", "space"},
	} {
		err := task.ValidateAgent(tt.name)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ValidateAgent(%q) = %v, want an error that says %q", tt.name, err, tt.want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("ValidateAgent(%q): the error repeats a control character: %q", tt.name, err)
		}
	}
}

// Characters that nobody sees: spaces of other widths and of none, joiners, a soft hyphen, writing from
// right to left, a byte order mark, private use, a variation selector, blank letters, symbols and marks, a
// tag, and what is unassigned.
func TestInvisibleNames(t *testing.T) {
	for _, r := range "\u00a0\u2003\u200b\u200d\u00ad\u202e\ufeff\ue000\ufe0f\u3164\u2800\u034f\U000e0041\u0378" {
		if err := task.ValidateAgent("Sand" + string(r) + "man"); err == nil || !strings.Contains(err.Error(), "invisible") {
			t.Errorf("%+q: %v, want that it is invisible", r, err)
		}
	}
}

func TestMatchAgent(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"Sandman", "Sandman", true},
		{"Sandman", "Sandman2", false},
		{"agent-*", "agent-7K9X", true},
		{"agent-*", "agent-", false},
		{"agent-*", "Agent-7K9X", false},
		{"agent-*", "my-agent-7K9X", false},
		{"*", "Sandman", true},
		{"*", "", false},
	} {
		if got := task.MatchAgent(tt.pattern, tt.name); got != tt.want {
			t.Errorf("MatchAgent(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

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
