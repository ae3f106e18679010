package api

// Agents lists the agents that work here.
type Agents struct {
	Agents []AgentSummary `json:"agents" nullable:"false" doc:"Those heard of lately, the last heard of first; at most 500"`
}

// AgentSummary describes an agent's claims and recent work.
type AgentSummary struct {
	Agent         string   `json:"agent"`
	Claims        []Claim  `json:"claims" nullable:"false" doc:"What the agent holds, or is done with and Notion has yet to be told"`
	DoneToday     int      `json:"done_today" doc:"How many tasks it completed, or handed in for review, since midnight of the daemon's machine"`
	MedianSeconds *float64 `json:"median_seconds,omitempty" doc:"How long it had a task, as the median of those that it completed in the last seven days; absent if there are none"`
	UsageToday    *Usage   `json:"usage_today,omitempty" doc:"What it reported since that midnight to have used for its tasks; absent if nothing"`
	Usage         *Usage   `json:"usage,omitempty" doc:"The same in the days that were asked for"`
	LastSeen      Time     `json:"last_seen" doc:"When it last claimed, renewed, polled or finished something, or was refused"`
	Inbox         int      `json:"inbox" doc:"How many triggers a poll would get"`
}
