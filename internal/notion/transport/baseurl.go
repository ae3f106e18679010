package transport

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// baseURL sends requests to the configured server, whichever server they name.
type baseURL struct {
	next http.RoundTripper
	base *url.URL
}

func (b *baseURL) RoundTrip(req *http.Request) (*http.Response, error) {
	to := b.base.JoinPath(req.URL.EscapedPath())
	to.RawQuery = req.URL.RawQuery
	req = req.WithContext(req.Context())
	req.URL, req.Host = to, to.Host
	return b.next.RoundTrip(req)
}

func parseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		shown := "no URL"
		if err == nil { // without what may be a secret
			shown = strconv.Quote((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
		}
		return nil, fmt.Errorf("notion.base_url is %s: set it to http:// or https:// with a host and perhaps a path, and nothing else, such as %s", shown, DefaultBaseURL)
	}
	if u.Path == "" {
		u.Path = "/" // else JoinPath makes a relative path, which HTTP/2 does not take
	}
	return u, nil
}
