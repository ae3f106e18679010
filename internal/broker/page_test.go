package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/task"

	"github.com/google/go-cmp/cmp"
)

// pages are pages of tasks that are all alike.
type pages struct {
	text, comments func(context.Context) error
	says           string
	said           []broker.Comment
	asked          *int
}

func (p pages) Text(ctx context.Context, _ task.ID) (string, []string, error) {
	*p.asked++
	return p.says, nil, p.text(ctx)
}

func (p pages) Whole(ctx context.Context, id task.ID) (string, error) {
	text, _, err := p.Text(ctx, id)
	return text, err
}

func (p pages) Comments(ctx context.Context, _ task.ID) ([]broker.Comment, error) {
	return p.said, p.comments(ctx)
}

func fine(context.Context) error { return nil }

func fails(kind claim.StoreErrorKind, says string) func(context.Context) error {
	return func(context.Context) error { return claim.Errorf(kind, claim.LandedNo, "%s", says) }
}

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A page and its comments are shown up to a length, and what is left out is counted.
func TestContentIsBounded(t *testing.T) {
	var many []broker.Comment
	for i := range 103 {
		many = append(many, broker.Comment{By: "Maria", At: began, Text: fmt.Sprint("no ", i)})
	}
	long := strings.Repeat("ü", 999) + "\n"
	for name, tt := range map[string]struct {
		says     string
		said     []broker.Comment
		content  string
		cut      int
		comments []string // the first, the last, and how many are left out
	}{
		"short":      {"# Do this\nand that\n", many[:1], "# Do this\nand that\n", 0, []string{"no 0", "no 0", "0"}},
		"many lines": {strings.Repeat(long, 201), many, strings.Repeat(long, 200), 1000, []string{"no 3", "no 102", "3"}},
		"one line": {strings.Repeat("ü", 200_003) + "\n", append(many[:103:103], broker.Comment{Text: strings.Repeat("x", 10_005)}), strings.Repeat("ü", 200_000), 4,
			[]string{"no 4", strings.Repeat("x", 10_000) + "… (5 more characters)", "4"}},
	} {
		inHouse(t, func(h *house) { h.config.Pages = pages{fine, fine, tt.says, tt.said, new(int)} }, pair()[:1], func(h *house) {
			h.mustClaim("Sandman", "")
			c := must(h, h.GetTaskContent, &api.GetTaskInput{ID: string(pair()[0].ID)})
			if *c.Content != tt.content || c.ContentCut != tt.cut || c.WrittenBy != "others" || c.Title != "First" || c.Agent != "Sandman" {
				h.Errorf("%s: %d bytes, without %d characters, of %+v", name, len(*c.Content), c.ContentCut, c.Task)
			}
			got := []string{c.Comments[0].Text, c.Comments[len(c.Comments)-1].Text, fmt.Sprint(c.CommentsCut)}
			if diff := cmp.Diff(tt.comments, got); diff != "" || len(c.Comments) > 100 || c.Comments[0].By != "Maria" || !c.Comments[0].At.Equal(began) {
				h.Errorf("%s: %d comments (-want +got):\n%s", name, len(c.Comments), diff)
			}
		})
	}
}

// An unreadable or slow page is said, in time, and the task itself is answered. Only the board's pages are read.
func TestContentThatCannotBeHad(t *testing.T) {
	refused, away := fails(claim.Refused, "check its capabilities"), fails(claim.Unavailable, "503")
	for _, tt := range []struct {
		text, comments       func(context.Context) error
		textErr, commentsErr string
		took                 time.Duration
	}{
		{refused, fine, "check its capabilities", "", 0},
		{fine, refused, "", "check its capabilities", 0},
		{hangs, fine, "Notion did not show it within 10s: try again", "", 10 * time.Second},
		{away, away, "Notion cannot be reached: 503: try again", "Notion cannot be reached: 503: try again", 0},
	} {
		asked := 0
		inHouse(t, func(h *house) { h.config.Pages = pages{tt.text, tt.comments, "text", nil, &asked} }, pair()[:1], func(h *house) {
			cl, start := h.mustClaim("Sandman", ""), time.Now()
			c := must(h, h.GetTaskContent, &api.GetTaskInput{ID: string(pair()[0].ID)})
			if c.ContentError != tt.textErr || c.CommentsError != tt.commentsErr || (c.Content == nil) != (tt.textErr != "") || (c.Comments == nil) != (tt.commentsErr != "") {
				h.Errorf("content %v, %q, comments %v, %q; want %q, %q", c.Content, c.ContentError, c.Comments, c.CommentsError, tt.textErr, tt.commentsErr)
			}
			if took := time.Since(start); took != tt.took || c.Title != "First" || c.ClaimID != cl.ID {
				h.Errorf("%+v after %v, want it after %v", c.Task, took, tt.took)
			}
			if _, code := did(h, h.GetTaskContent, &api.GetTaskInput{ID: string(pair()[1].ID)}); code != "not_found" || asked != 1 {
				h.Errorf("a page that is no task: %s, and %d pages were read", code, asked)
			}
		})
	}
}
