package connect

import (
	"os"
	"os/exec"
)

// Standing says how a client stands to dibs.
type Standing struct {
	Here      bool // its program, or its folder of settings, is on this machine
	Connected bool // something of ours is in its files
	Current   bool // all of it is, as this dibs would write it
}

// programs are the names of the clients' programs.
var programs = map[string][]string{"claude": {"claude"}, "codex": {"codex"}, "cursor": {"cursor", "cursor-agent"}}

// Standing looks for a client's program and for our part in its files. It changes nothing.
func (p Place) Standing(client string) (s Standing, err error) {
	for _, name := range programs[client] {
		if _, err := exec.LookPath(name); err == nil {
			s.Here = true
		}
	}
	if folder, err := os.Stat(p.settings(client)); err == nil && folder.IsDir() {
		s.Here = true
	}
	theirs, err := Plan(client, p, true)
	if err != nil {
		return s, err
	}
	ours, err := Plan(client, p, false)
	s.Connected, s.Current = len(theirs) > 0, len(ours) == 0
	return s, err
}
