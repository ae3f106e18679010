package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"dibs/internal/api"
	"dibs/internal/task"
)

// maxLine is far more than any line of a stream of events.
const maxLine = 1 << 20

// EventFilter selects events of the feed.
type EventFilter struct {
	After  int64   // only those with a higher id; api.EventsFuture: only new ones
	Agent  string  // only those that concern this agent
	Task   task.ID // only those about this task
	Follow bool    // go on with events as they come
}

// Events calls each with the events that f selects, in their order, until it
// fails. Without an error, there are no more; to a reader who follows, that
// means that the daemon has stopped.
func (c *Client) Events(ctx context.Context, f EventFilter, each func(api.FeedEvent) error) error {
	q := make(query)
	q.add("after", strconv.FormatInt(f.After, 10))
	q.add("agent", f.Agent)
	q.add("task", string(f.Task))
	q.add("follow", strconv.FormatBool(f.Follow))
	resp, err := c.send(ctx, get("/v1/events", q))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != http.StatusOK || media != api.EventStream {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return c.unreachable(ctx, err)
		}
		return c.read(resp, data, nil)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		// The data says all that the other fields do.
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e api.FeedEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("an event that this program does not understand: %w", err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}
