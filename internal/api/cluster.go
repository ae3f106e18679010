package api

// ClusterStatus says how the daemon gets on with the cluster that it is a member of.
type ClusterStatus struct {
	Name      string   `json:"name,omitempty" doc:"What this member is called"`
	Etcd      []string `json:"etcd,omitempty" doc:"Where etcd is"`
	LastError string   `json:"last_error,omitempty" doc:"Why no task can be claimed now; absent if etcd can be used"`

	Leader     string `json:"leader,omitempty" doc:"The member that reads the board for all, as far as this one knows; absent if none does"`
	Leads      bool   `json:"leads,omitempty" doc:"This daemon is the leader"`
	LagSeconds int    `json:"lag_seconds,omitempty" doc:"For how long this daemon has not taken over what the leader has read; absent if it has"`
	Behind     int    `json:"behind,omitempty" doc:"How many publications of the leader's those are that it has received"`
	Apart      bool   `json:"apart,omitempty" doc:"This daemon reads the board itself: the leader has another version, or other settings under tasks"`

	Share   *int `json:"share,omitempty" doc:"How many requests this daemon may send to Notion in a minute, of those that all members may send together"`
	Budget  int  `json:"budget,omitempty" doc:"How many those are"`
	Waiting int  `json:"waiting,omitempty" doc:"How many of its requests wait for their turn; its share grows by need"`

	InboxOwed int `json:"inbox_owed,omitempty" doc:"How many triggers and acknowledgements are stored here, and not passed on to the others yet"`
}

// Cluster answers a question for the members of a cluster.
type Cluster struct {
	Members []Member `json:"members" nullable:"false" doc:"Those that are there, or were 15 seconds ago; none without a cluster"`
	ClusterStatus

	Epoch int64 `json:"epoch,omitempty" doc:"Of daemons that share a journal: how many have led so far"`
	Since Time  `json:"since,omitzero" doc:"And since when the leader does"`

	Adopted *bool `json:"adopted,omitempty" doc:"In the answer to a request to adopt etcd: it was not as this daemon left it, and is adopted now; false if nothing had to be adopted"`
}

// Member is one of the daemons of a cluster.
type Member struct {
	Name              string   `json:"name"`
	Leader            bool     `json:"leader" doc:"It reads the board for all"`
	Address           string   `json:"address,omitempty" doc:"Where it listens for the other members"`
	SeenAt            Time     `json:"seen_at,omitzero" doc:"When it said so last; it says so once a minute at least"`
	RequestsPerMinute int      `json:"requests_per_minute" doc:"How many requests it sent to Notion in the last minute"`
	Share             int      `json:"share,omitempty" doc:"How many requests it may send in a minute, of those that all members may send together"`
	Version           string   `json:"version,omitempty" doc:"Its version of dibs"`
	Differs           []string `json:"differs,omitempty" doc:"How its settings differ from those of the daemon that answers, where all should have the same; a line for each"`
	LagSeconds        int      `json:"lag_seconds,omitempty" doc:"For how long it has not taken over what the leader has read, when it said so last"`
	Behind            int      `json:"behind,omitempty" doc:"How many publications of the leader's those are that it has received"`
	Self              bool     `json:"self,omitempty" doc:"It is the daemon that answers"`
}

// SameInCluster is what to do about the lines of Member.Differs.
const SameInCluster = "give all members of a cluster the same claim, tasks.statuses, tasks.properties, databases and notion.rate, and each a cluster.name of its own, and restart them"
