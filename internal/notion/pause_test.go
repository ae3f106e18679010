package notion_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
)

// While Notion asks for one pause after another, whoever sits there and waits is
// answered within five seconds, whatever the length of the pauses, at whatever moment
// somebody asks, and whatever luck they have.
func TestNobodyIsKeptWaitingByPauses(t *testing.T) {
	const promised = 5 * time.Second
	long := 40 * time.Minute
	if testing.Short() {
		long = 10 * time.Minute
	}
	for name, jitter := range map[string]func(time.Duration) time.Duration{
		"least jitter": func(time.Duration) time.Duration { return 0 },
		"most jitter":  func(n time.Duration) time.Duration { return n - 1 },
	} {
		for _, pause := range []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, ", ", pause), func(t *testing.T) {
				inWorld(t, func(w *world) {
					client, err := notion.New(notion.Options{Token: w.emulator.Token(), Transport: w.transport, Jitter: jitter})
					if err != nil {
						w.Fatal(err)
					}
					w.client = client
					tasks, id := w.tasks(notion.TaskSchema{}), w.page(props{})
					w.emulator.Inject(emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: pause})
					ask := map[string]func(ctx context.Context) error{
						"a claim": func(ctx context.Context) error {
							permitted, err := tasks.Permit(ctx, 2)
							if err != nil {
								return err
							}
							_, err = tasks.Get(permitted, id)
							return err
						},
						"a person": func(ctx context.Context) error {
							_, err := tasks.Get(notion.Impatient(ctx), id)
							return err
						},
					}
					for begin := time.Now(); time.Since(begin) < long; time.Sleep(1700 * time.Millisecond) {
						for who, ask := range ask {
							ctx, cancel := context.WithCancel(w.Context())
							start := time.Now()
							err := ask(ctx)
							cancel()
							failed, isFailed := errors.AsType[*claim.StoreError](err)
							if !isFailed || failed.Kind != claim.Unavailable || failed.RetryAfter <= 0 {
								w.Fatalf("%s: %v, want an error that says when to try again", who, err)
							}
							if took := time.Since(start); took > promised {
								w.Fatalf("%s was told after %v: %v; want it within %v", who, took, err, promised)
							}
						}
					}
				})
			})
		}
	}
}
