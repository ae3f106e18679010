package notion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
	"dibs/internal/outbox"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// Comment is a remark on a page.
type Comment struct {
	ID string
	// By is the author's displayed name; empty if Notion does not give it. Named is set if the
	// author chose the name through the API. Neither By nor Text has control characters, see
	// task.Plain.
	By    string
	Named bool
	At    time.Time // cut to the minute
	Text  string
}

// maxCommentAnswers limits the answers that Comments reads: a thousand comments.
const maxCommentAnswers = 10

// Comments returns the open comments on a page, the thousand oldest at most, oldest first. It takes
// one request for each hundred, in the lowest lane unless ctx says otherwise. The error is a
// *claim.StoreError; its kind is claim.Refused if the connection may not read comments.
func (c *Client) Comments(ctx context.Context, id task.ID) ([]Comment, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneSync)
	query := url.Values{"block_id": {string(id)}, "page_size": {"100"}}
	var comments []Comment
	for range maxCommentAnswers {
		var answer struct {
			Results []struct {
				ID          string    `json:"id"`
				CreatedTime time.Time `json:"created_time"`
				RichText    []span    `json:"rich_text"`
				DisplayName struct {
					Type         string `json:"type"`
					ResolvedName string `json:"resolved_name"`
				} `json:"display_name"`
			} `json:"results"`
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err := c.get(ctx, "/v1/comments", query, &answer); err != nil {
			if answered, ok := errors.AsType[*APIError](err); ok && forbidden(answered) {
				err = fmt.Errorf("to read comments the connection needs a capability that is off by default: switch it on at the connection's page in Notion: %w", answered)
				return nil, &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: err}
			}
			return nil, storeError(err)
		}
		for _, r := range answer.Results {
			comments = append(comments, Comment{
				ID: r.ID, By: task.Plain(r.DisplayName.ResolvedName), Named: r.DisplayName.Type == "custom", At: r.CreatedTime.UTC(), Text: task.Plain(plainText(r.RichText)),
			})
		}
		if !answer.HasMore {
			return comments, nil
		}
		if answer.NextCursor == "" || answer.NextCursor == query.Get("start_cursor") {
			return nil, claim.Errorf(claim.Unavailable, claim.LandedNo, "after %d comments: %w", len(comments), errNoCursor)
		}
		query.Set("start_cursor", answer.NextCursor)
	}
	return comments, nil
}

// CommentLog makes agents' comments on the pages of tasks. It is safe for concurrent use.
type CommentLog struct {
	client *Client

	mu sync.Mutex
	// made maps comments to entries: two entries with the same text each have their own comment.
	// After a restart, two equal entries within about a minute can no longer be told apart, and may
	// appear once.
	made lately[task.ID, string]
}

// CommentLog returns the log of comments on tasks' pages. It sends nothing.
func (c *Client) CommentLog() *CommentLog { return &CommentLog{client: c} }

var _ wording.Writer = (*CommentLog)(nil)

// resolvable is how long an entry of unknown fate is looked for. Notion lists open comments only:
// later, a missing comment may have been resolved.
const resolvable = time.Hour

// Create implements wording.Writer: it makes the comment, with one request that is sent at most
// once.
func (c *CommentLog) Create(ctx context.Context, e wording.Entry) error {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneLog)
	var made struct {
		ID task.ID `json:"id"`
	}
	c.client.writing(e.Comment.Page)
	err := c.client.post(ctx, "/v1/comments", map[string]any{
		"parent":       map[string]any{"page_id": e.Comment.Page},
		"rich_text":    commentSpans(e.Comment),
		"display_name": map[string]any{"type": "custom", "custom": map[string]any{"name": e.Comment.By}},
	}, &made)
	if err != nil {
		return c.failed(ctx, e, err, "insert comments")
	}
	c.belongs(made.ID, e.ID)
	return nil
}

// commentSpan is a part of a comment: a text, or the mention of a user.
type commentSpan struct {
	Text    *commentWords   `json:"text,omitempty"`
	Mention *commentMention `json:"mention,omitempty"`
}

type (
	commentWords struct {
		Content string `json:"content"`
	}
	commentMention struct {
		Type string  `json:"type"`
		User pageRef `json:"user"`
	}
)

// commentSpans returns the text of a comment, which begins with the mention.
func commentSpans(c wording.Comment) []commentSpan {
	var spans []commentSpan
	if c.Mention != "" {
		spans = append(spans, commentSpan{Mention: &commentMention{"user", pageRef{c.Mention}}}, commentSpan{Text: &commentWords{" "}})
	}
	for _, s := range new(spanWriter).write(c.Text) {
		spans = append(spans, commentSpan{Text: &commentWords{s.Text.Content}})
	}
	return spans[:min(len(spans), spansLimit)]
}

// commentText returns a comment's text and mentions, in a form to compare.
func commentText(spans []commentSpan) string {
	var text strings.Builder
	for _, s := range spans {
		switch {
		case s.Mention != nil && s.Mention.User.ID != "":
			fmt.Fprintf(&text, " @%s ", s.Mention.User.ID)
		case s.Text != nil:
			text.WriteString(s.Text.Content)
		}
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// Find implements wording.Writer: it reports whether the page has that comment, made by the
// connection since the event. If it is missing, but may have been there, the error is an
// *outbox.GoneError.
func (c *CommentLog) Find(ctx context.Context, e wording.Entry) (bool, error) {
	ctx = transport.InLaneUnlessChosen(ctx, transport.LaneLog)
	bot, err := c.client.Bot(ctx)
	if err != nil {
		return false, err
	}
	want := commentText(commentSpans(e.Comment))
	// Notion cuts the time to the minute, and the event's time is an estimate.
	earliest := e.At.Add(-time.Minute).Truncate(time.Minute)
	query := url.Values{"block_id": {string(e.Comment.Page)}, "page_size": {fmt.Sprint(pageSize)}}
	for answers := 1; ; answers++ {
		var listed struct {
			Results []struct {
				ID        task.ID       `json:"id"`
				Created   time.Time     `json:"created_time"`
				CreatedBy person        `json:"created_by"`
				Text      []commentSpan `json:"rich_text"`
			} `json:"results"`
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		if err := c.client.get(ctx, "/v1/comments", query, &listed); err != nil {
			return false, c.failed(ctx, e, err, "read comments")
		}
		for _, m := range listed.Results {
			if m.CreatedBy.ID == bot && !m.Created.Before(earliest) && commentText(m.Text) == want && c.belongs(m.ID, e.ID) {
				return true, nil
			}
		}
		switch {
		case !listed.HasMore && c.client.Now().Sub(e.At) > resolvable:
			return false, &outbox.GoneError{Err: claim.Errorf(claim.Refused, claim.LandedUnknown,
				"it was sent, Notion did not say what became of it, and it is not among the open comments, though it may have been resolved: it is not sent twice")}
		case !listed.HasMore:
			return false, nil
		case listed.NextCursor == "" || listed.NextCursor == query.Get("start_cursor"):
			return false, storeError(errNoCursor)
		case answers == maxAnswers:
			return false, storeError(errEndless)
		}
		query.Set("start_cursor", listed.NextCursor)
	}
}

// belongs records that a comment is an entry's. It returns false if the comment is another entry's.
func (c *CommentLog) belongs(comment task.ID, entry string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of, known := c.made.get(comment); known && of != entry {
		return false
	}
	if comment != "" {
		c.made.put(comment, entry)
	}
	return true
}

// failed converts the error of a request for a comment. A comment that Notion would always refuse
// is given up, and so is one whose page is gone.
func (c *CommentLog) failed(ctx context.Context, e wording.Entry, err error, capability string) error {
	answered, isAnswered := errors.AsType[*APIError](err)
	if isAnswered && forbidden(answered) {
		return &claim.StoreError{Kind: claim.Refused, Landed: answered.Landed, Err: lacksCapability(capability, answered)}
	}
	failed := storeError(err)
	switch {
	case failed.Kind == claim.NotFound, failed.Kind == claim.Trashed:
		if c.gone(ctx, e.Comment.Page) {
			return &outbox.GoneError{Err: failed}
		}
	case answered != nil && answered.Status == http.StatusBadRequest:
		return &outbox.GoneError{Err: failed}
	}
	return failed
}

// lacksCapability returns an error that names the missing capability.
func lacksCapability(capability string, err error) error {
	return fmt.Errorf("comments need the capability %q, which is off by default: switch it on at the connection's page in Notion, or set notion.comments to false: %w", capability, err)
}

// gone reports whether a page is in the trash, or not found a second time: Notion sometimes fails
// to find an existing page.
func (c *CommentLog) gone(ctx context.Context, id task.ID) bool {
	page, err := c.client.page(ctx, id)
	if err != nil {
		return storeError(err).Kind == claim.NotFound
	}
	return page.trashed()
}

// CanComment returns an error if the connection may not make and read comments; it says which
// capability is missing. It takes two requests, about a page that does not exist, so that nothing
// is made.
func (c *Client) CanComment(ctx context.Context) error {
	const nowhere = "00000000-0000-4000-8000-000000000000"
	for _, try := range []struct {
		capability string
		ask        func() error
	}{
		{"insert comments", func() error {
			return c.post(ctx, "/v1/comments", map[string]any{
				"parent": map[string]any{"page_id": nowhere}, "rich_text": commentSpans(wording.Comment{Text: "dibs doctor"}),
			}, nil)
		}},
		{"read comments", func() error {
			return c.get(ctx, "/v1/comments", url.Values{"block_id": {nowhere}}, new(struct{}))
		}},
	} {
		err := try.ask()
		answered, isAnswer := errors.AsType[*APIError](err)
		switch {
		case err == nil:
		case !isAnswer:
			return storeError(err)
		case forbidden(answered):
			return &claim.StoreError{Kind: claim.Refused, Landed: claim.LandedNo, Err: lacksCapability(try.capability, answered)}
		case answered.Status != http.StatusNotFound && answered.Status != http.StatusBadRequest:
			return storeError(err)
		}
	}
	return nil
}
