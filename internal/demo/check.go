package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/clock"
	"dibs/internal/emulator"
	"dibs/internal/owed"
)

// deliveryTime is how long the log entries may take to arrive.
const deliveryTime = 8 * time.Second

// check compares the local record with the board, and fills in the summary. It returns what is
// wrong.
func (d *demo) check(ctx context.Context) (problems []error) {
	var entries []api.LogEntry
	c := d.anyClient()
	owed, err := d.delivered(ctx, c)
	if err != nil {
		problems = append(problems, err)
	}
	record, err := c.Log(ctx, api.LogFilter{Limit: 1000})
	if err != nil {
		problems = append(problems, err)
	}
	entries = append(entries, record.Entries...)
	return append(problems, d.audit(entries, owed)...)
}

// audit checks the board after delivery; owed log entries may still be missing.
func (d *demo) audit(record []api.LogEntry, owed int) (problems []error) {
	dbs, s := d.notion.Databases(), &d.summary
	mesh, tasks := d.notion.Pages(dbs.MeshLog), d.notion.Pages(dbs.TaskLog)
	s.MeshLog, s.TaskLog, s.Requests = len(mesh), len(tasks), len(d.notion.Requests())
	for _, p := range d.notion.Pages(dbs.Tasks) {
		if p.Select("status") == "COMPLETED" && p.Text("claimed_by") != "" {
			s.Completed++
		}
	}
	for _, r := range d.notion.Requests() {
		if r.Status == http.StatusTooManyRequests {
			s.TooMany++
		}
	}
	if len(d.machines) > 0 && s.TooMany > 0 {
		problems = append(problems, fmt.Errorf("%d request(s) were more than Notion allows", s.TooMany))
	}
	if len(d.machines) > 0 && s.Killed == 0 {
		problems = append(problems, errors.New("no daemon was killed: this shows too little"))
	}
	if s.GrantedTwice > 0 {
		problems = append(problems, fmt.Errorf("%d task(s) were granted twice", s.GrantedTwice))
	}
	logged := make(map[claim.Log]map[string]bool)
	for _, e := range record {
		if e.Kind == claim.KindSwept {
			s.Swept++
		}
		for _, log := range (claim.Fact{Kind: e.Kind, Remote: e.Remote}).Logs() {
			if logged[log] == nil {
				logged[log] = make(map[string]bool)
			}
			logged[log][e.ID] = true
		}
	}
	problems = append(problems, compare("mesh log", logged[claim.MeshLog], mesh, &owed)...)
	return append(problems, compare("task log", logged[claim.TaskLog], tasks, &owed)...)
}

// delivered waits until a daemon owes Notion nothing. Entries that another daemon was sending when
// it was killed take longer: their absence must be certain before they are sent again. owed is
// their number.
func (d *demo) delivered(ctx context.Context, c *client.Client) (owed int, err error) {
	for deadline := time.Now().Add(deliveryTime); ; clock.Pause(ctx, 100*time.Millisecond) {
		status, err := c.Status(ctx)
		if err != nil {
			return 0, err
		}
		if status.Outbox.Depth == 0 && !status.Outbox.Unknown() {
			return 0, nil
		}
		if time.Now().After(deadline) && d.summary.Killed > 0 && inDoubt(status.Outbox.LastError) {
			d.print.line("demo", "%d log entries were on their way when the daemon was killed: they are looked for, and sent again after three minutes", status.Outbox.Depth)
			return status.Outbox.Depth, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%d log entries did not arrive: %s", status.Outbox.Depth, status.Outbox.LastError)
		}
	}
}

// inDoubt reports whether an entry waits because its fate is unknown.
func inDoubt(why string) bool {
	return strings.Contains(why, owed.ErrCutOff.Error()) || strings.Contains(why, owed.ErrNotFound.Error())
}

// compare checks that a log has each entry once, and nothing else. Up to *owed entries may be
// missing; each reduces it.
func compare(log string, logged map[string]bool, rows []emulator.Page, owed *int) (problems []error) {
	seen := make(map[string]int)
	for _, row := range rows {
		seen[row.Text("entry_id")]++
	}
	for id := range logged {
		if n := seen[id]; n == 0 && *owed > 0 {
			*owed--
		} else if n != 1 {
			problems = append(problems, fmt.Errorf("the %s has entry %s %d times, want once", log, id, n))
		}
	}
	for id := range seen {
		if !logged[id] {
			problems = append(problems, fmt.Errorf("the %s has an entry %q that nothing accounts for", log, id))
		}
	}
	return problems
}
