package notion

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"dibs/internal/claim"
	"dibs/internal/notion/transport"
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
