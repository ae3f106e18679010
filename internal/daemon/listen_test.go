package daemon_test

import (
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/notion/emulator"
)

// Who polls while somebody else's poll has the mesh log read, and Notion takes its time, does not
// wait for that longer than for Notion.
func TestPollsWaitForOneAnother(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(nil)
		time.Sleep(time.Minute)
		w.notion.Inject(emulator.Fault{Kind: emulator.Delay, Delay: 3 * time.Second, Path: "/v1/data_sources/" + w.notion.DataSource(w.notion.Databases().MeshLog)})
		began := time.Now()
		var polls sync.WaitGroup
		for _, agent := range []string{"Sandman", "Oracle"} {
			polls.Go(func() {
				if _, err := n.Poll(w.Context(), agent, api.PollRequest{}, ""); err != nil {
					w.Error(err)
				}
			})
		}
		polls.Wait()
		if took := time.Since(began); took < 3*time.Second || took > 10*time.Second {
			w.Errorf("two polls took %v", took)
		}
	})
}
