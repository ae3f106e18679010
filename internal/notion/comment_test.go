package notion_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// entry is a comment on a page that is owed since now.
func entry(id string, page task.ID, text, mention string) wording.Entry {
	return wording.Entry{ID: id, At: time.Now(), Comment: wording.Comment{Page: page, By: "Sandman", Text: text, Mention: mention}}
}

// shows compares the comments on a page, as "name: text".
func (w *world) shows(page task.ID, want ...string) {
	w.Helper()
	var got []string
	for _, c := range w.emulator.Comments(string(page)) {
		got = append(got, fmt.Sprintf("%s: %s", c.Name, c.Text))
	}
	if !slices.Equal(got, want) {
		w.Errorf("comments %q, want %q", got, want)
	}
}

// Whatever happened to the request for a comment, a look tells whether it is there; equal ones are
// told apart, and another's is none of ours.
func TestFateOfAComment(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  emulator.FaultKind
		landed claim.Landed
		found  bool
	}{
		"answered": {"", claim.LandedYes, true}, "answer lost": {emulator.DropAnswer, claim.LandedUnknown, true}, "saved but 503": {emulator.SavedBut503, claim.LandedYes, true},
		"409 and saved": {emulator.Conflict409Saved, claim.LandedUnknown, true}, "lost": {emulator.DropRequest, claim.LandedUnknown, false},
		"500": {emulator.Error500, claim.LandedUnknown, false}, "529": {emulator.Overload529, claim.LandedNo, false}, "refused": {emulator.Forbidden403, claim.LandedNo, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				page, log := w.page(props{"Name": title("Alpha")}), w.client.CommentLog()
				maria, err := w.emulator.AddPerson("Maria", "")
				if err == nil {
					err = errors.Join(w.emulator.AddComment(string(page), maria, "the tests are red"), log.Create(w.Context(), entry("first", page, "the tests are red", maria)))
				}
				if err != nil {
					w.Fatal(err)
				}
				second := entry("second", page, "the tests are red", maria)
				if found, err := log.Find(w.Context(), second); found || err != nil {
					w.Errorf("found before it was made: %v, %v", found, err)
				}
				if tt.fault != "" {
					w.emulator.Inject(emulator.Fault{Method: http.MethodPost, Path: "/v1/comments", Kind: tt.fault, Times: 1})
				}
				err = log.Create(w.Context(), second)
				if failed, ok := errors.AsType[*claim.StoreError](err); ok != (tt.fault != "") || ok && failed.Landed != tt.landed {
					w.Errorf("made: %v (landed %v), want %v", err, failed, tt.landed)
				}
				want := []string{": the tests are red", "Sandman: @Maria the tests are red", "Sandman: @Maria the tests are red"}
				w.shows(page, want[:map[bool]int{false: 2, true: 3}[tt.found]]...)
				for range 2 {
					if found, err := log.Find(w.Context(), second); found != tt.found || err != nil {
						w.Errorf("found %v, %v; want %v", found, err, tt.found)
					}
				}
				if found, err := w.client.CommentLog().Find(w.Context(), entry("later", page, "another", "")); found || err != nil {
					w.Errorf("another text: %v, %v", found, err)
				}
			})
		})
	}
}

// A comment that cannot be made or found any more is given up: its page is gone, or Notion would always
// refuse it, or somebody may have resolved it. One that is refused for want of a capability is not.
func TestCommentIsGivenUp(t *testing.T) {
	find := func(w *world, e wording.Entry) error {
		_, err := w.client.CommentLog().Find(w.Context(), e)
		return err
	}
	for name, tt := range map[string]struct {
		lose func(w *world, page string) error
		gone bool
		says string
	}{
		"trashed":    {func(w *world, page string) error { return w.emulator.TrashPage(page) }, true, ""},
		"not shared": {func(w *world, page string) error { return w.emulator.UnsharePage(page) }, true, ""},
		"deleted": {func(w *world, page string) error {
			return errors.Join(w.emulator.TrashPage(page), w.emulator.EmptyTrash())
		}, true, ""},
		"not allowed": {func(w *world, _ string) error {
			w.emulator.Inject(emulator.Fault{Path: "/v1/comments", Kind: emulator.Forbidden403})
			return nil
		}, false, `comments need the capability`},
		"down": {func(w *world, _ string) error {
			w.emulator.Inject(emulator.Fault{Path: "/v1/comments", Kind: emulator.Error503})
			return nil
		}, false, "503"},
		"resolved": {func(w *world, page string) error {
			return errors.Join(w.client.CommentLog().Create(w.Context(), entry("e", task.ID(page), "which?", "")), w.emulator.ResolveComment(w.emulator.Comments(page)[0].ID))
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				page := w.page(props{"Name": title("Alpha")})
				e := entry("e", page, "which?", "")
				if err := tt.lose(w, string(page)); err != nil {
					w.Fatal(err)
				}
				if name == "resolved" {
					if err := find(w, e); err != nil {
						w.Errorf("within an hour: %v", err)
					}
					time.Sleep(time.Hour + time.Minute)
					_, gone := errors.AsType[*outbox.GoneError](find(w, e))
					if err := find(w, e); !gone || !strings.Contains(err.Error(), "may have been resolved") {
						w.Errorf("after an hour: %v", err)
					}
					return
				}
				err := w.client.CommentLog().Create(w.Context(), e)
				if _, gone := errors.AsType[*outbox.GoneError](err); err == nil || gone != tt.gone || !strings.Contains(err.Error(), tt.says) {
					w.Errorf("%v, given up %v, want %v and %q", err, gone, tt.gone, tt.says)
				}
				if err := find(w, e); (err == nil) == (name != "trashed") {
					w.Errorf("looked for: %v", err)
				}
			})
		})
	}
}
