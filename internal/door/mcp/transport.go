package mcp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"dibs/internal/task"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxLine limits the bytes of a request. It is far more than a client ever sends.
	maxLine = 4 << 20
	// linger is how long open requests may still be answered after the input ended.
	linger = 10 * time.Second
	// listenMethod is a request that is answered only when it is cancelled.
	listenMethod = "subscriptions/listen"
	// progressMethod is a notification with only our own text, and a token of the client that must
	// stay unchanged.
	progressMethod = `"notifications/progress"`
)

// lines is a connection with one JSON-RPC message per line. A line that is no message is answered
// with an error; only the end of the input ends the connection. The SDK's own connection ends at
// the first line that it cannot read.
type lines struct {
	// over is called when the client is gone: the input ended, or nobody reads the output.
	over   func()
	in     chan []byte
	queue  []json.RawMessage // the rest of a batch; used by Read only
	exact  exact
	closed chan struct{}
	close  func()

	mu   sync.Mutex // guards all below
	out  io.Writer
	open map[jsonrpc.ID]bool // unanswered requests
	idle chan struct{}       // has a value when there are none
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
		open: make(map[jsonrpc.ID]bool), exact: newExact(),
	}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	// A read of stdin cannot be interrupted: it ends with the process.
	go c.scan(t.in)
	return c, nil
}

// scan reads lines until the input ends. It drops lines that are too long.
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

// next returns the next candidate for a message. At the end of the input, it first waits for open
// requests to be answered.
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

// split queues the messages of a line: a batch has several, each answered on its own line.
func (c *lines) split(line []byte) {
	if !json.Valid(line) {
		c.refuse(nil, jsonrpc.CodeParseError, "the line is no JSON: want one JSON-RPC message on each line")
		return
	}
	if line[0] != '[' {
		c.queue = append(c.queue, line)
		return
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		c.refuse(nil, jsonrpc.CodeInvalidRequest, "the batch is empty: want one JSON-RPC message or more")
	}
	c.queue = append(c.queue, batch...)
}

// decode returns the message in raw. If it is none, decode answers it with an error and returns
// nil.
func (c *lines) decode(raw json.RawMessage) jsonrpc.Message {
	msg, err := jsonrpc.DecodeMessage(c.exact.hide(raw))
	if err != nil {
		var known struct {
			ID     json.RawMessage `json:"id"`
			Method json.RawMessage `json:"method"`
		}
		if json.Unmarshal(raw, &known) != nil || known.Method == nil || !isID(known.ID) {
			known.ID = nil // perhaps a response, whose id must not be answered
		}
		c.refuse(known.ID, jsonrpc.CodeInvalidRequest, "not a JSON-RPC 2.0 message: want jsonrpc 2.0, a method, and an id that is a number or a text")
		return nil
	}
	if call, ok := msg.(*jsonrpc.Request); ok && call.IsCall() && call.Method != listenMethod && !c.begin(call.ID) {
		c.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the id %s is that of a request which is not answered yet: give each request its own", strings.TrimPrefix(fmt.Sprint(call.ID.Raw()), c.exact.mark)))
		return nil
	}
	return msg
}

// begin adds an open request; false if there is one with that id.
func (c *lines) begin(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] {
		return false
	}
	c.open[id] = true
	return true
}

// drain waits until every request is answered, for linger at most.
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

// refuse answers a line that is no request.
func (c *lines) refuse(id json.RawMessage, code int64, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(refusal(id, code, why)) // a client that is gone is noticed at the end of the input
}

// refusal is the answer, on a line, to what is not worked on.
func refusal(id json.RawMessage, code int64, why string) []byte {
	data, _ := json.Marshal(map[string]any{ // cannot fail on what was read
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why},
	})
	return append(data, '\n')
}

func (c *lines) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err == nil {
		data, err = c.exact.said(data)
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

// message is a JSON-RPC message. Its id and method are the client's.
type message struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  json.RawMessage `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// said returns a message of the SDK's as the client gets it: with the client's own numbers, and
// without the tags in all texts, whatever their tool, resource, error or field, because a model reads
// them.
func (e exact) said(data []byte) ([]byte, error) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if string(m.Method) == progressMethod {
		return e.show(data), nil
	}
	var refused jsonrpc.Error
	if json.Unmarshal(m.Error, &refused) == nil {
		if text, _, found := strings.Cut(refused.Message, ": unmarshaling "); found { // into the SDK's types
			m.Error, _ = json.Marshal(jsonrpc.Error{Code: refused.Code, Message: text}) // cannot fail
		}
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
			quoted, _ = json.Marshal(plain) // cannot fail on a text
			return quoted
		})
	}
	data, err := json.Marshal(m)
	return e.show(data), err
}

// texts matches the strings of a JSON document.
var texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func (c *lines) Close() error {
	c.close()
	return nil
}

func (c *lines) SessionID() string { return "" }

// exact carries the numbers by which a client names its requests, and their progress, through the
// SDK unchanged. The SDK reads them as float64 and rounds them to int64, and so answers 2^53+1 and
// 1.5 under other ids (https://github.com/modelcontextprotocol/go-sdk/issues/1253). Inside, such a
// number is a text that begins with a mark, which nobody else knows.
type exact struct {
	mark   string
	hidden *regexp.Regexp
}

func newExact() exact {
	mark := rand.Text() + " "
	return exact{mark, regexp.MustCompile(`"` + mark + `([-+.0-9Ee]+)"`)}
}

// isID reports whether JSON can be an id: a number that programs can read, or a text.
func isID(raw json.RawMessage) bool {
	_, err := strconv.ParseFloat(string(raw), 64)
	return err == nil || len(raw) > 0 && raw[0] == '"'
}

// hide replaces those numbers of a request that the SDK would change.
func (e exact) hide(raw json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m["method"] == nil {
		return raw // an answer has an id of ours
	}
	changed := e.hideIn(m, "id")
	var params, meta map[string]json.RawMessage
	if json.Unmarshal(m["params"], &params) == nil && params != nil {
		within := e.hideIn(params, "requestId") // of notifications/cancelled
		if json.Unmarshal(params["_meta"], &meta) == nil && e.hideIn(meta, "progressToken") {
			within = true
			params["_meta"], _ = json.Marshal(meta)
		}
		if within {
			changed = true
			m["params"], _ = json.Marshal(params)
		}
	}
	if !changed {
		return raw
	}
	raw, _ = json.Marshal(m) // cannot fail on what was read
	return raw
}

// hideIn replaces the member of an object, and reports whether it had to.
func (e exact) hideIn(m map[string]json.RawMessage, name string) bool {
	text := string(m[name])
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strconv.FormatInt(int64(n), 10) == text && int64(n) < 1<<53 && int64(n) > -1<<53 {
		return false
	}
	m[name], _ = json.Marshal(e.mark + text)
	return true
}

// show puts the numbers back.
func (e exact) show(data []byte) []byte { return e.hidden.ReplaceAll(data, []byte("$1")) }
