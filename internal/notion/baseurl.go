package notion

import (
	"fmt"
	"net/http"
	"net/url"
)

// baseURL sends requests to a server other than the one the library knows.
type baseURL struct {
	next http.RoundTripper
	base *url.URL
}

func (b *baseURL) RoundTrip(req *http.Request) (*http.Response, error) {
	to := b.base.JoinPath(req.URL.EscapedPath())
	to.RawQuery = req.URL.RawQuery
	req = req.Clone(req.Context())
	req.URL, req.Host = to, to.Host
	return b.next.RoundTrip(req)
}

func parseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not a base URL: want http or https, a host, and perhaps a path, see notion.base_url", s)
	}
	if u.Path == "" {
		u.Path = "/" // or JoinPath makes a relative path, which HTTP/2 does not take
	}
	return u, nil
}
