package api

// ClusterStatus describes the cluster of the answering daemon.
type ClusterStatus struct {
	Name   string `json:"name" doc:"What the daemon is called at which this was asked"`
	Leader string `json:"leader,omitempty" doc:"The member that leads, which does the work; absent while none does"`
	Epoch  int64  `json:"epoch" doc:"How many have led so far"`
	Since  Time   `json:"since,omitzero" doc:"Since when the leader does"`

	LastError string `json:"last_error,omitempty" doc:"Why nothing is granted now; absent if there is no doubt about the database"`
}

// Cluster lists the daemons that share a journal.
type Cluster struct {
	Members []Member `json:"members" nullable:"false" doc:"Those that are there, or were in the last days; none without journal.postgres"`
	ClusterStatus

	Adopted *bool `json:"adopted,omitempty" doc:"In the answer to a request to adopt the database: it was in doubt, and is adopted now; false if nothing had to be adopted"`
}

// Member is one of the daemons of a cluster.
type Member struct {
	Name    string `json:"name"`
	Leader  bool   `json:"leader" doc:"It does the work; the others are doors to it"`
	Address string `json:"address,omitempty" doc:"Where it listens for the other members"`
	SeenAt  Time   `json:"seen_at,omitzero" doc:"When it said so last; it says so every two seconds"`
	Self    bool   `json:"self,omitempty" doc:"It is the daemon at which this was asked"`
}
