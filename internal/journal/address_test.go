package journal_test

import (
	"strings"
	"testing"

	"dibs/internal/journal"
)

// Of an address that cannot be meant, the wrong part is named, and nothing of it is shown. All other
// addresses are tried.
func TestAddresses(t *testing.T) {
	const secret = "hush"
	for address, want := range map[string]string{
		"postgres://dibs:hush#1@127.0.0.1:1/dibs":                 "write %23",
		"postgres://dibs:1#hush@127.0.0.1:1/dibs":                 "write %23",
		"postgres://dibs:hush/1@127.0.0.1:1/dibs":                 "write %2F",
		"postgres://dibs:12/hush@127.0.0.1:1/dibs":                "write %2F",
		"postgres://dibs:hush?1@127.0.0.1:1/dibs":                 "%3F",
		"postgres://dibs:hush%@127.0.0.1:1/dibs":                  "write %25",
		"postgres://dibs:hush@127.0.0.1:1/dibs?sslmode=requiered": "its sslmode is none of disable, allow,",
		"host=127.0.0.1 password=hush sslmode=full":               "its sslmode is none of disable, allow,",
		"jdbc:postgresql://127.0.0.1:1/dibs?password=hush":        "for Java",
		"mysql://dibs:hush@127.0.0.1:1/dibs":                      "postgres://",
		"postgres://dibs:hush@127.0.0.1:port/dibs":                "no address of a PostgreSQL database",
		"postgres://dibs:hush%2F%23@127.0.0.1:1/dibs":             "see that PostgreSQL runs",
		"postgres://127.0.0.1:1/dibs?user=a@b&sslmode=disable":    "see that PostgreSQL runs",
		"postgres://127.0.0.1:1?user=a@b&sslmode=disable":         "see that PostgreSQL runs",
		"host=127.0.0.1 port=1 user=dibs password=hu#sh/@":        "see that PostgreSQL runs",
	} {
		_, err := journal.Dial(t.Context(), journal.Postgres{URL: address, Schema: "dibs", Board: oneBoard})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}
