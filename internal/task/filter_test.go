package task_test

import (
	"slices"
	"strings"
	"testing"

	"dibs/internal/task"
)

func TestHolds(t *testing.T) {
	const id = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
	span := map[string]any{"start": "2026-03-01", "end": "2026-03-05"}
	for _, tt := range []struct {
		value any
		text  string
		want  bool
	}{
		{nil, "", true}, {nil, "0", false}, {nil, "nil", false},
		{true, "yes", true}, {true, "TRUE", true}, {true, "no", false}, {true, "", false}, {false, "", false}, {false, "false", true}, {false, "0", true}, {true, "maybe", false},
		{42.0, "42", true}, {42.0, "42.00", true}, {42.0, " 42 ", true}, {0.5, ".5", true}, {42.0, "4", false}, {0.0, "", false}, {42.0, "42a", false},
		{"Web App", "web app", true}, {"Web App", "web", false}, {"Größe", "GRÖSSE", false}, {"Zoë", "ZOË", true}, {"x", "", false}, {" x ", "x", true}, {"42", "42", true},
		{[]any{"Web", "API"}, "api", true}, {[]any{"Web", "API"}, "web, api", false}, {[]any{}, "", true}, {[]any{"Web"}, "", false}, {[]any{nil}, "", false}, {[]any{1.0, 2.0}, "2", true},
		{[]any{id}, strings.ReplaceAll(id, "-", ""), true}, {[]any{id}, "https://www.notion.so/Sprint-" + strings.ReplaceAll(id, "-", ""), true}, {id, "2f835e81", false},
		{"2026-03-01", "2026-03-01", true}, {"2026-03-01", "2026-03", false},
		{"2026-03-01T10:00:00.000+00:00", "2026-03-01", true}, {"2026-03-01T10:00:00.000+00:00", "2026-03-01T11:00:00+01:00", true}, {"2026-03-01T10:00:00.000+00:00", "2026-03-02", false},
		{span, "2026-03-01", true}, {span, "2026-03-03", true}, {span, "2026-03-05", true}, {span, "2026-03-06", false}, {span, "", false},
	} {
		if got := task.FieldMatches(tt.value, tt.text); got != tt.want {
			t.Errorf("FieldMatches(%v, %q) = %v, want %v", tt.value, tt.text, got, tt.want)
		}
	}
}

func TestFilter(t *testing.T) {
	one := task.Task{
		Key: "T-3", Title: "Fix the Login page", Status: task.Open, Priority: task.High, ClaimedBy: "Oracle",
		Fields:  task.Fields{"Sprint": 42.0, "Area": []any{"Web"}, "Owner": nil, "status": "Review", "Project": []any{"Website"}},
		Related: map[string][]task.ID{"Project": {"4f1c9a52-1111-4111-8111-123456789abc"}},
	}
	high, low := task.High, task.Low
	for _, tt := range []struct {
		filter task.Filter
		miss   string
	}{
		{task.Filter{}, ""},
		{task.Filter{Priority: &high, Words: []string{"login", "FIX"}, Where: []task.Condition{{"Sprint", "42"}, {"Area", "web"}}}, ""},
		{task.Filter{Where: []task.Condition{{"key", "t-3"}, {"priority", "High"}, {"claimed_by", "oracle"}, {"note", ""}, {"Owner", ""}}}, ""},
		{task.Filter{Where: []task.Condition{{"Project", "website"}, {"Project", "4F1C9A52111141118111123456789ABC"}}}, ""},
		{task.Filter{Where: []task.Condition{{"Project", ""}, {"Project", "Web"}}}, "its Project is Website, its Project is Website"},
		{task.Filter{Where: []task.Condition{{"status", "review"}}}, ""}, // the one that is configured
		{task.Filter{Priority: &low}, "its priority is high"},
		{task.Filter{Where: []task.Condition{{"Sprint", "42"}, {"Sprint", "43"}}}, "its Sprint is 42"},
		{task.Filter{Where: []task.Condition{{"Owner", "Anna"}, {"Area", "API"}}}, "its Owner is empty, its Area is Web"},
		{task.Filter{Words: []string{"login", "logout", "form"}}, "its title has not “login” and “logout” and “form” in it"},
	} {
		if got := tt.filter.Miss(one, nil); got != tt.miss || tt.filter.Match(one) != (tt.miss == "") {
			t.Errorf("%+v: misses %q, want %q; matches: %v", tt.filter, got, tt.miss, tt.filter.Match(one))
		}
	}
}

func TestParseCondition(t *testing.T) {
	fields := []string{"Sprint", "Done when", "a=b", "a", "Status", "area", "Area"}
	for s, want := range map[string]task.Condition{
		"Sprint=42": {"Sprint", "42"}, "sprint = 42": {"Sprint", "42"}, "done when=x=y": {"Done when", "x=y"}, "Sprint=": {"Sprint", ""},
		"a=b=c": {"a=b", "c"}, "a=c=b": {"a", "c=b"}, "STATUS=x": {"Status", "x"}, "status=x": {"status", "x"}, "Area=x": {"Area", "x"}, "Key=T-3": {"key", "T-3"},
	} {
		if got, err := task.ParseCondition(s, fields); err != nil || got != want {
			t.Errorf("ParseCondition(%q) = %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"Sprnt=42": `there is no field "Sprnt": want one of Sprint, Done when, a=b, a, Status, area, Area, title, key, status, priority, claimed_by, note; tasks.fields in the configuration adds others`,
		"Sprint":   `"Sprint": want NAME=VALUE`,
		"=42":      `there is no field ""`,
	} {
		if _, err := task.ParseCondition(s, fields); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("ParseCondition(%q): %v", s, err)
		}
	}
	if _, err := task.ParseCondition("Sprint=42", nil); err == nil || !strings.HasSuffix(err.Error(), "which is empty, adds others") {
		t.Error(err)
	}
}

func TestFieldText(t *testing.T) {
	for want, value := range map[string]any{
		"": nil, "yes": true, "no": false, "42": 42.0, "0.5": 0.5, "1e+20": 1e20, "Web, API": []any{"Web", "API"},
		"2026-03-01 to 2026-03-05": map[string]any{"start": "2026-03-01", "end": "2026-03-05"}, "x": "x",
	} {
		if got := task.FieldText(value); got != want {
			t.Errorf("FieldText(%v) = %q, want %q", value, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	var words task.Words
	words.Set(task.Vocabulary{Statuses: map[task.Status]string{task.Open: "Offen"}, Priorities: map[task.Priority][]string{task.High: {"Hoch"}}})
	one := task.Task{Status: task.Open, Priority: task.High, PriorityName: "Hoch", Fields: task.Fields{"Area": []any{"Web", "API", "Web"}, "Sprint": 42.0, "Owner": nil}}
	for field, want := range map[string][]string{
		"Area": {"Web", "API"}, "Sprint": {"42"}, "Owner": {""}, "status": {"Offen"}, "priority": {"Hoch"}, "claimed_by": {""},
	} {
		if got := words.Values(one, field); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
