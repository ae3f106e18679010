package daemon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
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

func TestContentIsBounded(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		line := w.paged(strings.Repeat("ü", 200_003))
		id := w.paged(strings.Repeat(strings.Repeat("ü", 999)+"\n", 201))
		for i := range 103 {
			w.commented(id, fmt.Sprint("no ", i))
		}
		w.commented(id, strings.Repeat("x", 10_005))
		n := w.daemon(quiet)
		c, _ := n.content(id)
		if got := strings.Count(*c.Content, "\n"); got != 200 || c.ContentCut != 1000 {
			w.Errorf("%d lines, without %d characters", got, c.ContentCut)
		}
		if c, _ := n.content(line); *c.Content != strings.Repeat("ü", 200_000) || c.ContentCut != 4 { // plus the line end
			w.Errorf("of one line: %d bytes, without %d characters", len(*c.Content), c.ContentCut)
		}
		last := c.Comments[len(c.Comments)-1].Text
		if len(c.Comments) != 100 || c.CommentsCut != 4 || c.Comments[0].Text != "no 4" || last != strings.Repeat("x", 10_000)+"… (5 more characters)" {
			w.Errorf("%d comments, without %d, from %q to %q", len(c.Comments), c.CommentsCut, c.Comments[0].Text, last[9_990:])
		}
	})
}

// An unreadable or slow page does not fail a claim, and the task itself is answered.
func TestContentThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault             emulator.Fault
		content, comments string // their errors; - for none
		most              time.Duration
	}{
		"not allowed to read":  {emulator.Fault{Kind: emulator.Forbidden403, Path: "/v1/pages/*/markdown"}, "check its capabilities", "-", time.Second},
		"comments not allowed": {emulator.Fault{Kind: emulator.Forbidden403, Path: "/v1/comments"}, "-", "a capability that is off by default", time.Second},
		"for a moment":         {emulator.Fault{Kind: emulator.Error503, Path: "/v1/pages/*/markdown", Times: 1}, "-", "-", 2 * time.Second},
		"slow":                 {emulator.Fault{Kind: emulator.Delay, Delay: time.Hour, Path: "/v1/pages/*/markdown"}, "did not show it within 10s", "-", 11 * time.Second},
		"gone":                 {emulator.Fault{Kind: emulator.DropRequest}, "Notion", "Notion", 11 * time.Second},
		"a long pause":         {emulator.Fault{Kind: emulator.RateLimited429, RetryAfter: time.Hour}, "pause", "pause", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 0, func(w *world) {
				id := w.paged("text\n")
				n := w.daemon(quiet)
				cl := n.mustClaim("Sandman", id)
				w.notion.Inject(tt.fault)
				c, took := n.content(id)
				for _, part := range []struct {
					what, want, got string
					there           bool
				}{
					{"content", tt.content, c.ContentError, c.Content != nil}, {"comments", tt.comments, c.CommentsError, c.Comments != nil},
				} {
					if part.there != (part.want == "-") || part.there != (part.got == "") || !part.there && !strings.Contains(part.got, part.want) || strings.Contains(part.got, "\n") {
						w.Errorf("%s: %v, %q, want %q", part.what, part.there, part.got, part.want)
					}
				}
				if took > tt.most || c.Title != "Read me" || c.ClaimID != cl.ID {
					w.Errorf("%+v after %v, want it within %v", c.Task, took, tt.most)
				}
			})
		})
	}
}

// Only the board's pages are read.
func TestContentOfNoTask(t *testing.T) {
	t.Parallel()
	inWorld(t, 0, func(w *world) {
		n := w.daemon(quiet)
		secret, err := w.notion.CreatePage(w.notion.Databases().MeshLog, map[string]any{"Name": text("title", "not a task")})
		if err != nil {
			w.Fatal(err)
		}
		w.notion.ResetRequests()
		_, err = client.Do(w.Context(), n.Client, api.OpGetTaskContent, api.GetTaskInput{ID: secret})
		p, ok := errors.AsType[*api.Problem](err)
		if !ok || p.Code != api.Code(claim.CodeNotFound) || len(w.requests()) > 0 {
			w.Errorf("%v, after %q", err, w.requests())
		}
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
