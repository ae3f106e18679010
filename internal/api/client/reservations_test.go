package client_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/reserve"
)

// TestTaken compares more files than go at once with what the daemon says is reserved: in one
// request, and as many of them as there is time for.
func TestTaken(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spot := api.Spot{In: reserve.Files, Path: "/" + reserve.Escape(strings.Trim(dir, "/")) + "/f-*"}
	c, _ := daemon(t, http.StatusOK, api.Reservations{Reservations: []api.Reservation{{
		ID: "R", Agent: "Oracle", ExpiresAt: api.Time{Time: time.Now().Add(time.Hour)}, Patterns: []string{"f-*"},
		Targets: []api.ReserveTarget{{Pattern: "f-*", At: []api.Spot{spot}}},
	}}})
	set, err := c.Reserved(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for i := range 2500 {
		paths = append(paths, fmt.Sprintf("g-%d", i))
	}
	paths[0], paths[2499] = "f-0", "f-2499"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found []string
	note := func(t *reserve.Taken) { found = append(found, t.Asked+" "+t.By.Agent+" "+t.Pattern) }
	if err := client.Taken(ctx, set, "Sandman", dir, paths, note); err != nil || strings.Join(found, ", ") != "f-0 Oracle f-*, f-2499 Oracle f-*" {
		t.Errorf("found %v, %v", found, err)
	}
	found = nil
	if err := client.Taken(ctx, set, "Oracle", dir, paths, note); err != nil || found != nil {
		t.Errorf("what is Oracle's own: %v, %v", found, err)
	}
	// What is known by the end of the time is told, and what is not is named.
	err = client.Taken(ctx, set, "Sandman", dir, paths, func(t *reserve.Taken) { note(t); cancel() })
	if len(found) != 1 || err == nil || err.Error() != "there was no time for 1500 of 2500 files, from g-1000 on" {
		t.Errorf("found %v, %v", found, err)
	}
}
