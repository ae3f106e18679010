package emulator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Webhook says where the workspace's events go.
//
// First the token of the subscription is posted to URL, again and again until that answers 2xx: the
// answer stands for the person who pastes the token into Notion. From then on every change of what
// the connection can see is an event, signed with the token. A state file keeps the subscription, so
// that a restarted emulator goes on with it; another URL begins another one.
//
// As in Notion events come late, several changes as one, in no order, and now and then not at all:
// what is not sent when the emulator closes is lost. See Fault for more.
type Webhook struct {
	// URL is the receiver's, http or https. Redirects are failures.
	URL string
	// Client sends; nil is one of its own. In a testing/synctest bubble its transport must not use
	// sockets.
	Client *http.Client
	// Pace is how long things take; nil is NotionPace.
	Pace *Pace
	// Seed decides by how much each delay is longer.
	Seed uint64
}

// subscription is what the state file keeps of a webhook.
type subscription struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Token    string `json:"token"`
	Verified bool   `json:"verified"`
}

// Subscribe sends the workspace's events to a webhook until Close. An emulator has one webhook: a
// second call is an error, as is a URL that is not http or https.
func (e *Emulator) Subscribe(w Webhook) error {
	u, err := url.Parse(w.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is no webhook: want an http or https address such as http://127.0.0.1:8788/notion", w.URL)
	}
	if w.Pace == nil {
		pace := NotionPace()
		w.Pace = &pace
	}
	if w.Client == nil {
		w.Client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	client := *w.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.Client = &client

	s := &sender{Webhook: w, e: e, open: map[string]*event{}, slots: make(chan struct{}, maxSending)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	e.mu.Lock()
	if e.isClosed || e.sender != nil {
		e.mu.Unlock()
		s.cancel()
		return fmt.Errorf("%s is one webhook too many: the emulator has one, or is closed", w.URL)
	}
	if old := e.world.Subscription; old != nil && old.URL == w.URL {
		s.subscription = *old
	} else {
		s.subscription = subscription{ID: newID(), URL: w.URL, Token: "secret_" + newToken()[len("ntn_"):]}
	}
	e.sender = s
	if !s.subscription.Verified {
		s.wg.Go(s.verify)
	}
	e.mu.Unlock()
	return s.keep(false)
}

// maxSending is how many events are under way at once.
const maxSending = 16

// sender sends events. The emulator's lock guards open, seq and subscription.Verified.
type sender struct {
	Webhook
	e            *Emulator
	subscription subscription
	ctx          context.Context
	cancel       context.CancelFunc
	wg           sync.WaitGroup
	slots        chan struct{}
	// open are the events that later changes still join, by type and entity.
	open map[string]*event
	seq  uint64
}

// hears reports whether changes are events by now. The caller has the emulator's lock.
func (s *sender) hears() bool { return s != nil && s.subscription.Verified }

// close ends everything and waits for it.
func (s *sender) close() {
	if s != nil {
		s.cancel()
		s.wg.Wait()
		s.Client.CloseIdleConnections()
	}
}

// verify posts the token until it is accepted.
func (s *sender) verify() {
	body := compact(map[string]any{"verification_token": s.subscription.Token})
	for said := ""; ; {
		err := s.post(body, http.Header{})
		if err == nil {
			break
		}
		if err.Error() != said && s.ctx.Err() == nil {
			said = err.Error()
			s.e.log.Warn("the webhook does not take its verification token, which is sent until it does", "err", err)
		}
		if !s.wait(s.Pace.Verify) {
			return
		}
	}
	if err := s.keep(true); err != nil {
		s.e.log.Error("state not saved", "err", err)
	}
}

// keep keeps the subscription in the state, and that it is verified by now.
func (s *sender) keep(verified bool) error {
	return s.e.do(func(tx *tx) error {
		s.subscription.Verified = s.subscription.Verified || verified
		now := s.subscription
		if old := tx.world.Subscription; old == nil || *old != now {
			assign(tx, &tx.world.Subscription, &now)
		}
		return nil
	})
}

// post sends a body. An answer other than 2xx is an error.
func (s *sender) post(body []byte, header http.Header) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.Pace.Answer)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.Client.Do(r)
	if err != nil {
		return err
	}
	io.CopyN(io.Discard, answer.Body, maxUnauthorized) // so that the connection can be used again
	answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", s.URL, answer.Status)
	}
	return nil
}

// wait returns false if the emulator closed first.
func (s *sender) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return s.ctx.Err() == nil
	case <-s.ctx.Done():
		return false
	}
}

// sign returns the value of X-Notion-Signature for a body.
func sign(token string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
