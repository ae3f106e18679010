package daemon_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// paged makes a task with that page.
func (w *world) paged(markdown string) string {
	w.Helper()
	id := w.add("Read me", nil)
	mustDo(w, w.notion.WriteMarkdown(id, markdown))
	return id
}

// commented adds a comment by Maria.
func (w *world) commented(id, text string) {
	w.Helper()
	mustDo(w, w.notion.AddComment(id, w.maria(), text))
}

func (w *world) maria() string {
	w.Helper()
	id, err := w.notion.AddPerson("Maria", "")
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// content returns a page's content, and how long the answer took.
func (n *node) content(id string) (api.TaskContent, time.Duration) {
	n.w.Helper()
	start := time.Now()
	c, err := client.Do(n.w.Context(), n.Client, api.OpGetTaskContent, api.GetTaskInput{ID: id})
	if err != nil {
		n.w.Fatal(err)
	}
	return c, time.Since(start)
}

func TestWhatContentCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		id := w.paged("# Do this\nand that\n")
		n := w.daemon(quiet)
		n.mustClaim("Sandman", id)
		time.Sleep(time.Minute)
		w.commented(id, "which?")
		asks := func(comments, parts int) {
			w.Helper()
			w.notion.ResetRequests()
			c, _ := n.content(id)
			if c.ContentError != "" || c.CommentsError != "" {
				w.Error(c.ContentError, c.CommentsError)
			}
			time.Sleep(time.Minute)
			got := make(map[string]int)
			for _, r := range w.requests() {
				got[r]++
			}
			if diff := cmp.Diff(map[string]int{"GET page": parts, "GET comments": comments}, got); diff != "" {
				w.Errorf("requests (-want +got):\n%s", diff)
			}
		}
		c, _ := n.content(id)
		want := api.Page{WrittenBy: "others", Content: new("# Do this\nand that\n"), Comments: []api.Comment{{By: "Maria", Text: "which?"}}}
		if len(c.Comments) == 1 && time.Since(c.Comments[0].At.Time) < 2*time.Minute {
			c.Comments[0].At = api.Time{}
		}
		if diff := cmp.Diff(want, c.Page); diff != "" || c.Title != "Read me" || c.Agent != "Sandman" {
			w.Errorf("%+v (-want +got):\n%s", c.Task, diff)
		}
		asks(1, 1)
		mustDo(w, w.notion.SetMarkdownLimit(1))
		asks(1, 2)
		for i := range 100 {
			w.commented(id, fmt.Sprint("and ", i))
		}
		asks(2, 2)
	})
}

// However many pages are requested, claims come first.
func TestContentSlowsNoClaim(t *testing.T) {
	testkit.TakesSeconds(t)
	t.Parallel()
	inWorld(t, 180, func(w *world) {
		id := w.paged("text\n")
		n := w.daemon(nil)
		claims := func() (took []time.Duration) {
			for range 5 {
				start := time.Now()
				cl := n.mustClaim("Sandman", id)
				took = append(took, time.Since(start))
				if _, err := client.Do(w.Context(), n.Client, api.OpRelease, api.On(string(cl.ID), "", api.StopRequest{})); err != nil {
					w.Fatal(err)
				}
				time.Sleep(30 * time.Second)
			}
			return took
		}
		alone := slices.Max(claims())
		var readers sync.WaitGroup
		stop := make(chan struct{})
		for range 20 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						n.content(id)
						time.Sleep(time.Second)
					}
				}
			})
		}
		time.Sleep(2 * time.Minute)
		among := slices.Max(claims())
		close(stop)
		readers.Wait()
		if among > alone+2*time.Second {
			w.Errorf("a claim takes up to %v while pages are read, %v otherwise", among, alone)
		}
	})
}
