package api

// Story is what happened to a task, or to one claim on it, for as long as the record is kept.
type Story struct {
	Task  TaskRef `json:"task"`
	Story []Step  `json:"story" nullable:"false" doc:"Oldest first"`
}

// Step is one thing that happened.
type Step struct {
	At   Time   `json:"at"`
	Who  string `json:"who" doc:"An agent, a person, or dibs"`
	What string `json:"what" doc:"What happened, as a sentence"`
	Why  string `json:"why" doc:"Why, in one line; empty if nobody said"`
}
