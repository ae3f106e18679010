package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/kit/clock"
	"dibs/internal/notion/emulator"
)

// deliveryTime is how long the log entries may take to arrive.
const deliveryTime = 8 * time.Second

// check compares the local record with the board, and fills in the summary. It returns what is
// wrong.
func (d *demo) check(ctx context.Context) (problems []error) {
	var entries []api.LogEntry
	if err := d.delivered(ctx); err != nil {
		problems = append(problems, err)
	}
	record, err := d.client.Log(ctx, api.LogFilter{Limit: 1000})
	if err != nil {
		problems = append(problems, err)
	}
	entries = append(entries, record.Entries...)
	return append(problems, d.audit(entries)...)
}

// audit checks the board after delivery.
func (d *demo) audit(record []api.LogEntry) (problems []error) {
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
	problems = append(problems, compare("mesh log", logged[claim.MeshLog], mesh)...)
	return append(problems, compare("task log", logged[claim.TaskLog], tasks)...)
}

// delivered waits until the daemon owes Notion nothing.
func (d *demo) delivered(ctx context.Context) error {
	for deadline := time.Now().Add(deliveryTime); ; clock.Pause(ctx, 100*time.Millisecond) {
		status, err := d.client.Status(ctx)
		if err != nil {
			return err
		}
		if status.Outbox.Depth == 0 && !status.Outbox.Unknown() {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d log entries did not arrive: %s", status.Outbox.Depth, status.Outbox.LastError)
		}
	}
}

// compare checks that a log has each entry once, and nothing else.
func compare(log string, logged map[string]bool, rows []emulator.Page) (problems []error) {
	seen := make(map[string]int)
	for _, row := range rows {
		seen[row.Text("entry_id")]++
	}
	for id := range logged {
		if n := seen[id]; n != 1 {
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
