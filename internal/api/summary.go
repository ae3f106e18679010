package api

// Summary counts why the unfinished tasks of the board are not ready, for an agent that asked for
// the next one.
type Summary struct {
	Held            int  `json:"held" doc:"Tasks that somebody has"`
	Blocked         int  `json:"blocked" doc:"Tasks that are BLOCKED"`
	Dependencies    int  `json:"dependencies" doc:"Tasks that wait for others"`
	Stuck           int  `json:"stuck,omitempty" doc:"Those of dependencies that can never become ready, unless a person changes what they wait for; absent for none"`
	Assigned        int  `json:"assigned" doc:"Tasks that only somebody else may claim"`
	TakenBack       int  `json:"taken_back,omitempty" doc:"Tasks that somebody took back from the agent within the last hour; absent for none"`
	CoolingOff      int  `json:"cooling_off" doc:"Tasks that are passed over for a while, because their pages could not be read or written"`
	Filtered        int  `json:"filtered" doc:"Tasks that are ready, and not what was asked for"`
	Review          int  `json:"review,omitempty" doc:"Tasks that are done, and that a person has yet to look at; absent for none"`
	Failed          int  `json:"failed,omitempty" doc:"Tasks that are FAILED; absent for none"`
	NotOffered      int  `json:"not_offered,omitempty" doc:"Tasks that are not for agents, by tasks.only; absent for none"`
	Other           int  `json:"other" doc:"Tasks that cannot be claimed as they are, such as those in a status that tasks.statuses does not name"`
	NextLeaseEndsAt Time `json:"next_lease_ends_at,omitzero" doc:"When the first of the leases ends that are held, unless it is renewed"`
}
