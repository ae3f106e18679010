package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/arbiter"
)

// kinEvery is how often the settings of the other members are looked at.
const kinEvery = 30 * time.Second

// kin is how the settings of the other members of the cluster differ from those here.
type kin struct {
	mu     sync.Mutex
	looked time.Time
	said   []string
	n      int // how many members there are, this one too
}

func (k *kin) lines() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.said)
}

func (k *kin) members() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n
}

// settingsOf are the settings that all members should have alike.
func settingsOf(c config.Config) arbiter.Settings {
	p, s := c.Tasks.Properties, c.Tasks.Statuses
	return arbiter.SettingsOf(map[string]string{
		"notion.rate":         fmt.Sprint(c.Notion.Rate),
		"databases.task_log":  c.Databases.TaskLog,
		"databases.mesh_log":  c.Databases.MeshLog,
		"claim.timeout":       c.Claim.Timeout.String(),
		"claim.write_window":  c.Claim.WriteWindow.String(),
		"claim.override":      string(c.Claim.Override),
		"claim.max_per_agent": fmt.Sprint(c.Claim.MaxPerAgent),
		"claim.max_lifetime":  c.Claim.MaxLifetime.String(),
		"claim.max_attempts":  fmt.Sprint(c.Claim.MaxAttempts),
		"tasks.statuses":      strings.Join([]string{s.Open, s.InProgress, s.Blocked, s.Completed, s.Cancelled, s.Review, s.Failed}, ", "),
		"tasks.properties":    strings.Join([]string{p.Status, p.ClaimedBy, p.ClaimedAt, p.ClaimTimeoutMinutes, p.ClaimToken, p.Priority, p.DependsOn, p.Note}, ", "),
	})
}

// lookAtKin compares the settings of the other members with those here, now and then.
func (d *works) lookAtKin(ctx context.Context) error {
	k := &d.member.kin
	if k.mu.Lock(); time.Since(k.looked) < kinEvery {
		k.mu.Unlock()
		return nil
	}
	k.mu.Unlock()
	members, err := d.member.Members(ctx)
	if err != nil {
		return err
	}
	var lines []string
	for _, m := range members {
		for _, differs := range d.differs(m) {
			lines = append(lines, fmt.Sprintf("member %s of the cluster has %s", m.Name, differs))
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range lines {
		if !slices.Contains(k.said, line) {
			d.log.Warn("another member of the cluster has other settings", "what", line)
		}
	}
	k.looked, k.said, k.n = time.Now(), lines, len(members)
	return nil
}

// differs says how the settings of a member differ from those here.
func (d *works) differs(m arbiter.Member) []string {
	if m.ID == d.member.Member() {
		return nil
	}
	var lines []string
	if m.Settings != "" {
		lines = m.Settings.Against(settingsOf(*d.live.Load()))
	}
	if m.Name == d.member.name {
		lines = append(lines, fmt.Sprintf("cluster.name %s, as this one has", m.Name))
	}
	return lines
}

// kinWarnings are the lines of a status about other members.
func (d *works) kinWarnings() []string {
	var lines []string
	for _, line := range d.member.kin.lines() {
		lines = append(lines, line+": "+api.SameInCluster)
	}
	return lines
}
