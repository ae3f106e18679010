package transport

import (
	"bytes"
	"io"
	"net/http"
)

// whole is the body of an answer that has been read. It keeps its bytes, so that each
// part of the chain can look at them without making a copy.
type whole struct {
	bytes.Reader
	data []byte
}

// Close implements io.Closer.
func (*whole) Close() error { return nil }

// Body returns the whole body of an answer. Nobody may change the bytes. The body of
// an answer that a Transport returned can be read again afterwards; any other body is
// read and closed.
func Body(resp *http.Response) ([]byte, error) {
	if body, ok := resp.Body.(*whole); ok {
		return body.data, nil
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// WithBody gives an answer another body, and returns it.
func WithBody(resp *http.Response, data []byte) *http.Response {
	body := &whole{data: data}
	body.Reset(data)
	resp.Body, resp.ContentLength = body, int64(len(data))
	return resp
}

// closeBody does what a RoundTripper owes a request that it does not pass on.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
