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
)

// maxLine limits the bytes of a line. It is far more than a stream of events ever sends.
const maxLine = 1 << 20

// Events calls each for the events that f selects, in order, until each fails or there are no more.
// With follow, it waits for new events, and returns nil when the daemon stops. next is always the
// value of f.After to continue without a gap. It grows with each event, and also while f selects
// nothing, because the daemon reports its position.
func (c *Client) Events(ctx context.Context, f api.EventFilter, follow bool, each func(api.Event) error) (next int64, err error) {
	next = f.After
	resp, err := c.send(ctx, newRequest(api.OpEvents, api.EventsInput{After: f.After, Agent: f.Agent, Task: string(f.Task), Patient: f.Patient, Follow: follow}))
	if err != nil {
		return next, err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != http.StatusOK || media != api.EventStream {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return next, c.unreachable(ctx, err)
		}
		return next, c.read(resp, data, nil)
	}
	var id, data string // of the current block, which ends with an empty line
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			if value != "" { // a comment
				continue
			}
			if data != "" {
				if err := take(data, each); err != nil {
					return next, err
				}
			}
			if n, err := strconv.ParseInt(id, 10, 64); err == nil {
				next = n
			}
			id, data = "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return next, c.unreachable(ctx, err)
	}
	return next, nil
}

// take decodes an event and calls each with it.
func take(data string, each func(api.Event) error) error {
	var e api.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("an event that this program does not understand: %w", err)
	}
	return each(e)
}
