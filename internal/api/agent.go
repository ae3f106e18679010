package api

// MaxSession limits the bytes of a session's text.
const MaxSession = 200

// MintRequest asks for a name.
type MintRequest struct {
	Session string `json:"session,omitempty" fit:"exact" maxLength:"200" doc:"Any text that tells the caller's session from all others of the same user, such as the id that its client gave it: whoever asks with the same text gets the same name. Without it, the name is always a new one"`
}

// Minted answers a MintRequest.
type Minted struct {
	Agent  string `json:"agent" doc:"The name: nobody else here has it"`
	Minted bool   `json:"minted" doc:"The name is new; false for one that the session had"`
}

// Agent describes an agent, and says whether the caller may use its name.
type Agent struct {
	Agent   string `json:"agent"`
	UID     *int   `json:"uid,omitempty" doc:"The user who asks, by number; absent where that is not known"`
	Allowed bool   `json:"allowed" doc:"That user may go by the name"`
	Reason  string `json:"reason,omitempty" doc:"Why not"`

	Paused *Pause `json:"paused,omitempty" doc:"Why it is granted nothing for now"`

	Claims      []Claim `json:"claims" nullable:"false" doc:"What the agent holds through this daemon, or is done with and Notion has yet to be told"`
	MaxPerAgent int     `json:"max_per_agent" doc:"How many tasks it may have at a time, in the whole cluster; 0 is any number"`
	Lost        []Claim `json:"lost,omitempty" doc:"What was taken from it, newest first, until any answer has told it so: one to a request of the agent about the claim, or a trigger"`
	Inbox       int     `json:"inbox" doc:"How many triggers a poll would get"`
}
