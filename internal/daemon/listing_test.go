package daemon_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
)

// The list of tasks has first what matters, and says why the rest is not ready.
func TestTasksThatMatter(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		w.add("Over", map[string]any{"status": option("status", "COMPLETED")})
		w.add("Stuck", map[string]any{"status": option("status", "BLOCKED"), "priority": option("select", "critical")})
		waitsFor := w.add("Design", nil)
		w.add("Late", map[string]any{"priority": option("select", "high"), "depends_on": relation(waitsFor, w.add("Gone", map[string]any{"status": option("status", "CANCELLED")}))})
		w.add("Free", map[string]any{"priority": option("select", "low")})
		n := w.daemon(quiet)
		defer n.stop()
		n.mustClaim("alice", waitsFor)
		time.Sleep(time.Minute)
		list, err := n.Tasks(w.Context(), api.TaskFilter{})
		if err != nil {
			w.Fatal(err)
		}
		var titles []string
		for _, one := range list.Tasks {
			titles = append(titles, one.Title)
			if one.Ready == (one.Code != "" || one.Reason != "") {
				w.Errorf("%s: ready is %v, and it says %s: %s", one.Title, one.Ready, one.Code, one.Reason)
			}
			if one.Title == "Late" && (one.Code != "blocked_by_dependency" || one.Reason != "it waits for “Design” (IN_PROGRESS, alice) and “Gone” (CANCELLED)" ||
				len(one.WaitingFor) != 2 || one.WaitingFor[0].Agent != "alice") {
				w.Errorf("%s: %q, %+v", one.Code, one.Reason, one.WaitingFor)
			}
		}
		if got := strings.Join(titles, " "); got != "Design Free Late Stuck Over Gone" && got != "Design Free Late Stuck Gone Over" {
			w.Errorf("order: %s", got)
		}
		list, err = n.Tasks(w.Context(), api.TaskFilter{Limit: 2})
		if err != nil || len(list.Tasks) != 2 || list.Tasks[1].Title != "Free" || list.Total != 6 {
			w.Errorf("two of them: %+v, %v", list, err)
		}
		_, err = n.claim("Oracle", "TASK-5")
		if code(err) != "blocked_by_dependency" || !strings.Contains(err.Error(), "“Design” (IN_PROGRESS, alice)") {
			w.Error(err)
		}
	})
}
