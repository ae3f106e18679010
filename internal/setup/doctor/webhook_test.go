package doctor_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/setup/doctor"
)

// The doctor tells a webhook that works from one of which nothing comes.
func TestWebhook(t *testing.T) {
	for _, tt := range []struct {
		webhook *api.WebhookStatus
		level   doctor.Level
		found   string
	}{
		{nil, "", ""},
		{&api.WebhookStatus{Address: "http://h:1/notion"}, doctor.Warning, "Notion has sent nothing yet"},
		{&api.WebhookStatus{Verified: true, Polled: 19, Missed: 9}, doctor.OK, "no event yet"},
		{&api.WebhookStatus{Verified: true, Received: 3, Edits: 1, Polled: 19, Missed: 10, LastAt: api.Time{Time: time.Now()}}, doctor.Warning, "syncs found 10 edits since the last event came"},
		{&api.WebhookStatus{Verified: true, Received: 7, Edits: 3, Polled: 1, LastAt: api.Time{Time: time.Now()}}, doctor.OK, "they told of 3 of 4 edits first"},
	} {
		inWorld(t, func(w *world) {
			defer w.serve(&api.Status{Webhook: tt.webhook})()
			f := find(doctor.Run(w.Context(), w.options), "webhook")
			if f.Level != tt.level || !strings.Contains(f.Found, tt.found) || (f.Remedy != "") != (tt.level == doctor.Warning) {
				w.Errorf("%+v: %+v, want %s: %s", tt.webhook, f, tt.level, tt.found)
			}
		})
	}
}
