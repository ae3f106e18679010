package api

import "dibs/internal/claim"

// Reservation is an agent's lease on files, by pattern, and on other things, by name.
type Reservation struct {
	ID        string   `json:"id"`
	Patterns  []string `json:"patterns" nullable:"false" doc:"As they were written: patterns of a .gitignore that stands in folder, and names such as name:db-migrations"`
	Agent     string   `json:"agent"`
	ExpiresAt Time     `json:"expires_at" doc:"When it ends at the latest, as things are: with the lease of its claim, which may be renewed"`
	Shared    bool     `json:"shared" doc:"Whether others have it, too, who ask to share it"`
	Folder    string   `json:"folder,omitempty" doc:"Where the patterns were given"`
	MadeAt    Time     `json:"made_at"`
	ClaimID   claim.ID `json:"claim_id,omitempty" doc:"The claim that it ends with"`
	PID       int      `json:"pid,omitempty" doc:"The process that it ends with"`
	Member    string   `json:"member,omitempty" doc:"In a cluster, the member through which it was made"`
	// Targets are set if they were asked for.
	Targets []ReserveTarget `json:"targets,omitempty" nullable:"false" doc:"With targets=true: its patterns at those places where the daemon compares them"`
}

// Spot is the place of a pattern or a file. A file in a repository has two: its path in the
// repository, which is the same in all worktrees, and its absolute path.
type Spot struct {
	In   string `json:"in" fit:"exact" minLength:"1" doc:"The absolute path of the repository's common git directory; origin: and where it was cloned from, such as origin:github.com/acme/api, by which a cluster knows it; files for an absolute path; names for what is no file"`
	Path string `json:"path" fit:"exact" minLength:"1" doc:"Begins with a slash, which is the top of the repository or of all files; a pattern of a .gitignore in what is to be reserved"`
}

// ReserveTarget is a pattern to reserve.
type ReserveTarget struct {
	Pattern string `json:"pattern" fit:"exact" minLength:"1" doc:"As it was written"`
	At      []Spot `json:"at" minItems:"1" nullable:"false"`
	Files   bool   `json:"files,omitempty" doc:"It means files: not what would be in a folder of such a name"`
}

// ReserveRequest asks for everything that it names, or nothing. Repeating it renews the
// reservation.
type ReserveRequest struct {
	Agent      string          `json:"agent" is:"actor" minLength:"1" doc:"Who reserves"`
	Targets    []ReserveTarget `json:"targets" minItems:"1" nullable:"false" doc:"At most 32" maxItems:"32"`
	Folder     string          `json:"folder,omitempty" fit:"exact" maxLength:"4096" doc:"Where the patterns were given, for people"`
	Shared     bool            `json:"shared,omitempty" doc:"Let others have it, too, who ask to share it"`
	ForSeconds float64         `json:"for_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long at the most; without it, as long as the claim or the process lasts, at most a day, and half an hour if there is neither"`
	Claim      string          `json:"claim,omitempty" is:"claim" doc:"End it with this claim of the agent's: a claim id or a task id"`
	PID        int             `json:"pid,omitempty" is:"process" minimum:"1" doc:"End it with this process of the caller's on this machine"`
}

// Reserved answers a ReserveRequest.
type Reserved struct {
	Reservation Reservation `json:"reservation"`
}

// Reservations lists reservations.
type Reservations struct {
	Reservations []Reservation `json:"reservations" nullable:"false"`
}

// CheckTarget is a path that an agent wants to touch.
type CheckTarget struct {
	Path   string `json:"path" fit:"exact" minLength:"1" doc:"As it was written"`
	At     []Spot `json:"at" minItems:"1" nullable:"false"`
	Folder bool   `json:"folder,omitempty" doc:"It is a folder: all that is in it is meant"`
}

// CheckRequest asks whether an agent may touch all of these paths.
type CheckRequest struct {
	Agent   string        `json:"agent,omitempty" doc:"Who wants to; without it, what anybody has reserved is somebody else's"`
	Targets []CheckTarget `json:"targets" minItems:"1" nullable:"false" doc:"At most 1000" maxItems:"1000"`
}

// Checked answers a CheckRequest: nobody else has reserved any of it.
type Checked struct {
	Paths []string `json:"paths" nullable:"false" doc:"What may be touched, as it was written"`
}
