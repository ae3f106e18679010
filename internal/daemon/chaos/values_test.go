package chaos_test

import "time"

// Property values in the form of Notion's API.
func text(kind, content string) any {
	spans := []any{}
	if content != "" {
		spans = append(spans, map[string]any{"text": map[string]any{"content": content}})
	}
	return map[string]any{kind: spans}
}

func option(kind, name string) any { return map[string]any{kind: map[string]any{"name": name}} }

func date(t time.Time) any {
	return map[string]any{"date": map[string]any{"start": t.UTC().Format(time.RFC3339)}}
}
