package transport

import (
	"bytes"
	"io"
	"net/http"
)

// whole is an answer's body that has been read. It keeps its bytes, so that each part of the
// chain can read them without a copy.
type whole struct {
	bytes.Reader
	data []byte
}

// Close implements io.Closer.
func (*whole) Close() error { return nil }

// Body returns the whole body of an answer. Callers must not change the bytes. The body of an
// answer that a Transport returned can be read again; any other body is read and closed.
func Body(resp *http.Response) ([]byte, error) {
	if body, ok := resp.Body.(*whole); ok {
		return body.data, nil
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// WithBody replaces the body of an answer, and returns the answer.
func WithBody(resp *http.Response, data []byte) *http.Response {
	body := &whole{data: data}
	body.Reset(data)
	resp.Body, resp.ContentLength = body, int64(len(data))
	return resp
}

// closeBody closes the body of a request that is not passed on, as a RoundTripper must.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
