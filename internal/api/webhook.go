package api

// Webhook is the address at which the daemon hears Notion's webhooks, and the secret for it.
type Webhook struct {
	Token     string `json:"token" doc:"The verification token that Notion sent, to be entered there; empty until it did"`
	Address   string `json:"address" doc:"The URL that the daemon listens on, which a proxy or tunnel has to reach; empty without webhook.listen"`
	RefusedAt Time   `json:"refused_at,omitzero" doc:"When another token than this was refused last"`
	Received  int    `json:"received" doc:"Events with a right signature since the daemon started"`
	LastAt    *Time  `json:"last_at" nullable:"true" doc:"When the last one came"`

	Refused *RefusedHook `json:"refused,omitempty" doc:"The last request to the address of the member that answers that was refused, since it started"`
}

// RefusedHook is a request to the address of the webhook that was refused, by whomever.
type RefusedHook struct {
	At      Time   `json:"at"`
	Request string `json:"request" doc:"Its method and path"`
	Reason  string `json:"reason"`
}

// WebhookStatus says how webhooks do, without the secret.
type WebhookStatus struct {
	Address  string       `json:"address,omitempty" doc:"The URL that the daemon listens on"`
	Verified bool         `json:"verified" doc:"Notion has sent its verification token"`
	Received int          `json:"received" doc:"Events since the daemon started"`
	LastAt   Time         `json:"last_at,omitzero" doc:"When the last one came"`
	Refused  *RefusedHook `json:"refused,omitempty" doc:"The last request to the address that was refused"`

	Edits          int     `json:"edits" doc:"Edits that were first heard of by an event"`
	Missed         int     `json:"missed" doc:"Edits that syncs found since the last event"`
	Polled         int     `json:"polled" doc:"Edits that a sync found first"`
	MedianSeconds  float64 `json:"median_seconds,omitzero" doc:"From an edit in Notion until it was known here, for those of the last events"`
	SlowestSeconds float64 `json:"slowest_seconds,omitzero"`
}
