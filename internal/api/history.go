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

// History counts what happened in the last hours, in steps of equal length. Each list has a number
// for each step, oldest first; the last step is unfinished.
type History struct {
	From        Time `json:"from" doc:"When the first step begins"`
	To          Time `json:"to" doc:"When the last step ends, which is yet to come"`
	StepSeconds int  `json:"step_seconds" doc:"How long a step is, in whole minutes"`

	Granted   []int            `json:"granted" nullable:"false" doc:"Claims that were granted"`
	Completed []int            `json:"completed" nullable:"false" doc:"Tasks that were completed, or handed in for review"`
	Failed    []int            `json:"failed" nullable:"false" doc:"Tasks whose work failed"`
	Denied    map[string][]int `json:"denied" nullable:"false" doc:"Claims that were refused, by code; a code that no claim was refused with is left out"`
	Lost      []int            `json:"lost" nullable:"false" doc:"Claims that somebody else ended, or took over once they were stale"`
	Swept     []int            `json:"swept" nullable:"false" doc:"Stale claims that a sweep took off"`

	Tokens []int     `json:"tokens" nullable:"false" doc:"Tokens that agents reported to have used"`
	USD    []float64 `json:"usd" nullable:"false" doc:"The same in money, in US dollars"`

	WaitP50 []*float64 `json:"wait_seconds_p50" nullable:"false" doc:"How long a task had been ready when it was granted: the median, within a tenth of it; null where none was granted"`
	WaitP90 []*float64 `json:"wait_seconds_p90" nullable:"false" doc:"The same, which nine of ten grants stayed below"`

	WorkP50 []*float64 `json:"work_seconds_p50" nullable:"false" doc:"How long an agent had a task that it completed: the median, within a tenth of it; null where none was completed"`
	WorkP90 []*float64 `json:"work_seconds_p90" nullable:"false" doc:"The same, which nine of ten stayed below"`

	Backlog []*float64 `json:"backlog" nullable:"false" doc:"How many tasks were open, and nobody's, on average; null where nobody looked"`
	Held    []*float64 `json:"held" nullable:"false" doc:"How many were held, in the same way"`

	Requests []int `json:"requests" nullable:"false" doc:"Requests sent to Notion"`
	Budget   int   `json:"budget" doc:"How many requests a step has room for, at the rate that is configured"`
}
