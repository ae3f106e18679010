package api

// ClusterStatus says how the daemon gets on with the cluster that it is a member of.
type ClusterStatus struct {
	Name      string   `json:"name,omitempty" doc:"What this member is called"`
	Etcd      []string `json:"etcd,omitempty" doc:"Where etcd is"`
	LastError string   `json:"last_error,omitempty" doc:"Why no task can be claimed now; absent if etcd can be used"`
	InboxOwed int      `json:"inbox_owed,omitempty" doc:"How many triggers and acknowledgements are stored here, and not passed on to the others yet"`
}

// Cluster answers a question for the members of a cluster.
type Cluster struct {
	Members []Member `json:"members" nullable:"false" doc:"Those that are there, or were 15 seconds ago; none without a cluster"`
	ClusterStatus
}

// Member is one of the daemons of a cluster.
type Member struct {
	Name              string   `json:"name"`
	Leader            bool     `json:"leader" doc:"It reads the board for all"`
	SeenAt            Time     `json:"seen_at,omitzero" doc:"When it said so last; it says so once a minute at least"`
	RequestsPerMinute int      `json:"requests_per_minute" doc:"How many requests it sent to Notion in the last minute"`
	Share             int      `json:"share,omitempty" doc:"How many requests it may send in a minute, of those that all members may send together"`
	Version           string   `json:"version,omitempty" doc:"Its version of dibs"`
	Differs           []string `json:"differs,omitempty" doc:"How its settings differ from those of the daemon that answers, where all should have the same; a line for each"`
	Self              bool     `json:"self,omitempty" doc:"It is the daemon that answers"`
}

// SameInCluster is what to do about the lines of Member.Differs.
const SameInCluster = "give all members of a cluster the same claim, tasks.statuses, tasks.properties, databases and notion.rate, and each a cluster.name of its own, and restart them"
