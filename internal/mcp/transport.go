package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"dibs/internal/task"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxLine is far more than any request of a client.
	maxLine = 4 << 20
	// linger is for how long requests may still be answered once there is no more input.
	linger = 10 * time.Second
	// listenMethod is a request that is answered only when it is cancelled.
	listenMethod = "subscriptions/listen"
	// progressMethod is a notification that says nothing but what is ours, and a token of the
	// client's, which has to stay as it is.
	progressMethod = "notifications/progress"
)

// lines is a connection with one JSON-RPC message on each line. What is no message is
// answered with an error, and the next line is read: nothing but the end of the input ends
// the connection. The SDK's own connection ends at the first line that it cannot read.
type lines struct {
	// over is called once there is no more input, or nobody who reads the output: nobody is
	// left to wait for.
	over   func()
	in     chan []byte
	queue  []json.RawMessage // of a batch; used by Read only
	closed chan struct{}
	close  func()

	mu   sync.Mutex // guards all below
	out  io.Writer
	open map[jsonrpc.ID]bool // requests that are not answered yet
	idle chan struct{}       // is told when there are none
}

// transport connects to the lines of in and out.
type transport struct {
	in   io.Reader
	out  io.Writer
	over func()
}

func (t transport) Connect(context.Context) (sdk.Connection, error) {
	c := &lines{
		over: t.over, out: t.out,
		in: make(chan []byte), closed: make(chan struct{}), idle: make(chan struct{}, 1),
		open: make(map[jsonrpc.ID]bool),
	}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	// A read of stdin cannot be interrupted: it is left to the end of the process.
	go c.scan(t.in)
	return c, nil
}

// scan reads lines until there are none. Of one that is too long, nothing is kept.
func (c *lines) scan(in io.Reader) {
	defer close(c.in)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var line []byte
		tooLong := false
		part, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			if tooLong = tooLong || len(line)+len(part) > maxLine; !tooLong {
				line = append(line, part...)
			}
			part, err = r.ReadSlice('\n')
		}
		line = append(line, part...)
		if tooLong || len(line) > maxLine {
			c.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a line of more than %d bytes was not read", maxLine))
			line = nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case c.in <- line:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read returns the next message. The error is io.EOF.
func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		raw, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		if msg := c.decode(raw); msg != nil {
			return msg, nil
		}
	}
}

// next returns what may be the next message. When there is no more input, it gives the
// requests that are open time to be answered first.
func (c *lines) next(ctx context.Context) (json.RawMessage, error) {
	for len(c.queue) == 0 {
		select {
		case line, more := <-c.in:
			if !more {
				c.over()
				c.drain(ctx)
				return nil, io.EOF
			}
			c.split(line)
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, io.EOF
		}
	}
	raw := c.queue[0]
	c.queue = c.queue[1:]
	return raw, nil
}

// split takes a line apart: a batch has several messages, each of which is answered on a
// line of its own.
func (c *lines) split(line []byte) {
	if !json.Valid(line) {
		c.refuse(nil, jsonrpc.CodeParseError, "the line is no JSON")
		return
	}
	if line[0] != '[' {
		c.queue = append(c.queue, line)
		return
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		c.refuse(nil, jsonrpc.CodeInvalidRequest, "the batch is empty")
	}
	c.queue = append(c.queue, batch...)
}

// decode returns the message that raw is; nil if it is none, which is answered.
func (c *lines) decode(raw json.RawMessage) jsonrpc.Message {
	msg, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		var known struct {
			ID     any             `json:"id"`
			Method json.RawMessage `json:"method"`
		}
		if json.Unmarshal(raw, &known) != nil || known.Method == nil {
			known.ID = nil // an answer, perhaps: its id is none of ours
		}
		switch known.ID.(type) {
		case string, float64:
		default:
			known.ID = nil
		}
		c.refuse(known.ID, jsonrpc.CodeInvalidRequest, fmt.Sprintf("not a JSON-RPC 2.0 message: %v", err))
		return nil
	}
	if call, ok := msg.(*jsonrpc.Request); ok && call.IsCall() && call.Method != listenMethod && !c.begin(call.ID) {
		c.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the id %v is that of a request which is not answered yet", call.ID.Raw()))
		return nil
	}
	return msg
}

// begin notes a request; false if there is one of that id.
func (c *lines) begin(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] {
		return false
	}
	c.open[id] = true
	return true
}

// drain waits until every request is answered.
func (c *lines) drain(ctx context.Context) {
	over := time.NewTimer(linger)
	defer over.Stop()
	for {
		c.mu.Lock()
		left := len(c.open)
		c.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-c.idle:
		case <-over.C:
			return
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// refuse answers what is no request.
func (c *lines) refuse(id any, code int64, why string) {
	data, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why},
	})
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(append(data, '\n')) // one who is gone is noticed at the end of the input
}

func (c *lines) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if call, ok := msg.(*jsonrpc.Request); err == nil && !(ok && call.Method == progressMethod) {
		data, err = untagged(data)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := msg.(*jsonrpc.Response); ok {
		if delete(c.open, answer.ID); len(c.open) == 0 {
			select {
			case c.idle <- struct{}{}:
			default:
			}
		}
	}
	if _, err = c.out.Write(append(data, '\n')); err != nil {
		c.over() // the client does not read any more
	}
	return err
}

// message is one of JSON-RPC. What it is told by (its id, its method) is the client's own.
type message struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  json.RawMessage `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// untagged takes the tags out of all that a message says, because a model reads it: whatever
// tool, resource or error it is of, and in whichever field.
func untagged(data []byte) ([]byte, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	for _, part := range []*json.RawMessage{&m.Params, &m.Result, &m.Error} {
		*part = texts.ReplaceAllFunc(*part, func(quoted []byte) []byte {
			var text string
			if !bytes.ContainsAny(quoted, `<\＜﹤`) || json.Unmarshal(quoted, &text) != nil {
				return quoted
			}
			plain := task.Untagged(text)
			if plain == text {
				return quoted
			}
			quoted, _ = json.Marshal(plain) // a text always can be
			return quoted
		})
	}
	return json.Marshal(m)
}

// texts matches the texts of a JSON document.
var texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func (c *lines) Close() error {
	c.close()
	return nil
}

func (c *lines) SessionID() string { return "" }
