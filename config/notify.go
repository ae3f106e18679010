package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// Notice is a kind of notice: what a receiver can be told of.
type Notice string

// The kinds of notices.
const (
	NoticeAsk    Notice = "ask"    // an agent asks people a question
	NoticeBlock  Notice = "block"  // a task stands still until a person acts
	NoticeReview Notice = "review" // work waits for a person's decision
	NoticeLost   Notice = "lost"   // an agent lost its task
	NoticeStuck  Notice = "stuck"  // a task can never become ready
	NoticePaused Notice = "paused" // nothing is granted
)

// Notices lists the kinds of notices.
var Notices = []Notice{NoticeAsk, NoticeBlock, NoticeReview, NoticeLost, NoticeStuck, NoticePaused}

// Form is what a message to an address looks like.
type Form string

// The forms.
const (
	FormSlack Form = "slack" // JSON with text, as an incoming webhook of Slack takes it
	FormText  Form = "text"  // plain text, with headers that ntfy knows
	FormJSON  Form = "json"  // JSON with text and the notices
)

// Receiver is an address or a command that gets notices.
type Receiver struct {
	// URL is the address to POST to; URLFile is a file with nothing but that. Command is run by
	// sh instead. One of the three is set.
	URL     Secret `key:"url,omitempty"`
	URLFile string `key:"url_file,omitempty"`
	Command string `key:"command,omitempty"`
	// Form is that of a message to an address; empty means the one that fits the address.
	Form Form `key:"form,omitempty"`
	// On lists the kinds of notices; empty means all.
	On []Notice `key:"on,omitempty"`
	// Insecure allows an address with http on another machine.
	Insecure bool `key:"insecure,omitempty"`
}

// Address returns the receiver's address, from its file if it is there, and nil for a command. Its
// errors do not repeat the address, all of which may be secret.
func (r Receiver) Address(log *slog.Logger) (*url.URL, error) {
	text := r.URL
	if r.URLFile != "" {
		var err error
		if text, err = readSecret("notify: url_file", r.URLFile, "the address of a receiver", log); err != nil {
			return nil, err
		}
	} else if text == "" {
		return nil, nil
	}
	u, err := url.Parse(string(text))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("notify: an address is not an http or https URL")
	case u.Scheme == "http" && !r.Insecure && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("notify: http://%s would get its notices, and the secrets in its address, over the network unencrypted: use https, or, if that is meant, set insecure: true beside it", u.Host)
	}
	return u, nil
}

func validateReceivers(all []Receiver) []error {
	var errs []error
	for i, r := range all {
		set := 0
		for _, given := range []string{string(r.URL), r.URLFile, r.Command} {
			if strings.TrimSpace(given) != "" {
				set++
			}
		}
		same := func(o Receiver) bool { return o.URL == r.URL && o.URLFile == r.URLFile && o.Command == r.Command }
		switch {
		case set != 1:
			errs = append(errs, fmt.Errorf("notify: receiver %d: want one of url, url_file and command", i+1))
		case slices.ContainsFunc(all[:i], same):
			errs = append(errs, fmt.Errorf("notify: receiver %d is listed twice: put all that it is told of into one list", i+1))
		case r.URL != "":
			if _, err := r.Address(nil); err != nil {
				errs = append(errs, err)
			}
		}
		if !slices.Contains([]Form{"", FormSlack, FormText, FormJSON}, r.Form) {
			errs = append(errs, fmt.Errorf("notify: form: want %s, %s or %s, got %q", FormSlack, FormText, FormJSON, string(r.Form)))
		}
		for _, e := range r.On {
			if !slices.Contains(Notices, e) {
				errs = append(errs, fmt.Errorf("notify: on: want some of %v, got %q", Notices, string(e)))
			}
		}
	}
	return errs
}
