package emulator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
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

	s := &sender{Webhook: w, e: e, open: map[string]*hookEvent{}, slots: make(chan struct{}, maxSending)}
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
	open map[string]*hookEvent
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
	for last := ""; ; {
		err := s.post(body, http.Header{})
		if err == nil {
			break
		}
		if err.Error() != last && s.ctx.Err() == nil {
			last = err.Error()
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

// Pace is how long things take between a change and its events.
type Pace struct {
	// Created is how late page.created is, Properties the first page.properties_updated of a page,
	// Single events that are never combined: those of comments and locks.
	Created, Properties, Single time.Duration
	// Window begins with a page's first page.properties_updated: what follows in it is one event at
	// its end.
	Window time.Duration
	// Rest is how late other events are: what happens until then, of the same type to the same
	// object, is one event.
	Rest time.Duration
	// Spread is by how much of itself each delay and retry is longer at most.
	Spread float64
	// Retries are the waits before the second attempt and those after it. Answer is how long an
	// attempt waits for its answer.
	Retries []time.Duration
	Answer  time.Duration
	// Verify is the wait before the token of the subscription is posted again.
	Verify time.Duration
}

// NotionPace returns the pace of Notion, as far as it is known: eight attempts in about a day.
func NotionPace() Pace {
	return Pace{
		Created: 3 * time.Second, Properties: time.Second, Single: 2 * time.Second,
		Window: time.Minute, Rest: 30 * time.Second, Spread: 0.5,
		Retries: []time.Duration{
			time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 2 * time.Hour, 5 * time.Hour, 11 * time.Hour,
		},
		Answer: 10 * time.Second, Verify: 5 * time.Second,
	}
}

// publish sends an event when it is time, with what joins it until then. The caller has the
// emulator's lock.
func (s *sender) publish(ev *hookEvent) {
	ev.Timestamp = time.Now().UTC().Format(stampLayout)
	key := ev.Type + " " + ev.Entity.ID
	if open, isOpen := s.open[key]; isOpen {
		open.join(ev)
		return
	}
	s.seq++
	ev.random = rand.New(rand.NewPCG(s.Seed, s.seq))
	ev.ID, ev.SubscriptionID = newID(), s.subscription.ID
	ev.WorkspaceID, ev.WorkspaceName, ev.IntegrationID = workspaceID, workspaceName, integrationID
	ev.APIVersion = version2026 // of the subscription, not of requests
	switch {
	case ev.Type == "page.created":
		s.sendAfter(s.Pace.Created, ev)
	case ev.Type == "page.properties_updated":
		next := *ev // empty until something joins it
		next.ID, next.Authors, next.Data.Properties = newID(), nil, nil
		next.random = rand.New(rand.NewPCG(s.Seed, ^s.seq))
		s.sendAfter(s.Pace.Properties, ev)
		s.gather(key, s.Pace.Window, &next)
	case strings.HasPrefix(ev.Type, "comment."), ev.Type == "page.locked", ev.Type == "page.unlocked":
		s.sendAfter(s.Pace.Single, ev)
	default:
		s.gather(key, ev.spread(s.Pace.Rest, s.Pace), ev)
	}
}

func (s *sender) sendAfter(d time.Duration, ev *hookEvent) {
	d = ev.spread(d, s.Pace)
	s.wg.Go(func() {
		if s.wait(d) {
			s.send(ev)
		}
	})
}

// gather lets later events join one for that long, and then sends it, unless it has nobody's change
// to tell of.
func (s *sender) gather(key string, d time.Duration, ev *hookEvent) {
	s.open[key] = ev
	s.wg.Go(func() {
		in := s.wait(d)
		s.e.mu.Lock()
		delete(s.open, key)
		s.e.mu.Unlock()
		if in && len(ev.Authors) > 0 {
			s.send(ev)
		}
	})
}

// spread makes a delay longer by a random part of itself.
func (ev *hookEvent) spread(d time.Duration, p *Pace) time.Duration {
	return d + time.Duration(ev.random.Float64()*p.Spread*float64(d))
}

// errDropped is an attempt that a fault let fail.
var errDropped = errors.New("dropped by a fault")

// send sends an event until an attempt succeeds, or there have been enough.
func (s *sender) send(ev *hookEvent) {
	for again := range len(s.Pace.Retries) + 1 {
		if again > 0 && !s.wait(ev.spread(s.Pace.Retries[again-1], s.Pace)) {
			return
		}
		ev.Attempt = again + 1
		err := s.attempt(ev)
		if err == nil || s.ctx.Err() != nil {
			return
		}
		s.e.log.Warn("the webhook has not taken an event", "type", ev.Type, "entity", ev.Entity.ID, "attempt", ev.Attempt, "err", err)
	}
}

// attempt sends an event once, as a fault has it. After an error the event is to be tried again.
func (s *sender) attempt(ev *hookEvent) error {
	body := compact(ev)
	header := http.Header{"X-Notion-Signature": {sign(s.subscription.Token, body)}}
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.URL, nil)
	if err != nil {
		return err
	}
	f := s.e.strike(r, body, &route{pattern: ev.Type, effect: events})
	if f == nil {
		return s.post(body, header)
	}
	switch f.Kind {
	case LoseEvent:
		return nil
	case DropRequest:
		return errDropped
	case DropAnswer:
		return cmp.Or(s.post(body, header), errDropped)
	case RepeatEvent:
		err = s.post(body, header)
	case Delay:
		s.wait(f.Delay)
	case Stop:
		s.e.stall(f, r)
	}
	return cmp.Or(err, s.post(body, header))
}

// hookEvent is one event in the form of Notion's body.
type hookEvent struct {
	ID             string    `json:"id"`
	Timestamp      string    `json:"timestamp"` // of the last change told, in milliseconds
	WorkspaceID    string    `json:"workspace_id"`
	WorkspaceName  string    `json:"workspace_name"`
	SubscriptionID string    `json:"subscription_id"`
	IntegrationID  string    `json:"integration_id"`
	Authors        []ref     `json:"authors"`
	Attempt        int       `json:"attempt_number"`
	APIVersion     version   `json:"api_version"`
	Type           string    `json:"type"`
	Entity         ref       `json:"entity"`
	Data           eventData `json:"data"`

	random *rand.Rand // of its delays
}

type eventData struct {
	Page   string `json:"page_id,omitempty"` // of a comment
	Parent ref    `json:"parent"`
	// Properties has ids of a page's properties, or propertyChanges of a schema.
	Properties []any `json:"updated_properties,omitempty"`
	Blocks     []ref `json:"updated_blocks,omitempty"`
}

// ref names an object in an event.
type ref struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Source string `json:"data_source_id,omitempty"` // of a page's database
}

// propertyChange is what happened to a property of a schema.
type propertyChange struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Action string `json:"action"` // created, updated, deleted
}

// join adds what a later event of the same type and entity says.
func (ev *hookEvent) join(next *hookEvent) {
	ev.Timestamp, ev.Data.Parent = next.Timestamp, next.Data.Parent
	ev.Authors = union(ev.Authors, next.Authors)
	ev.Data.Properties = union(ev.Data.Properties, next.Data.Properties)
	ev.Data.Blocks = union(ev.Data.Blocks, next.Data.Blocks)
}

func union[T comparable](a, b []T) []T {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// news collects the events of one transaction.
type news struct {
	*tx
	events []*hookEvent
}

// events returns what a committed transaction has changed for the connection: once for each object,
// whose first change says what it was before.
func (tx *tx) events() []*hookEvent {
	n := &news{tx: tx}
	told := map[string]bool{}
	for _, c := range tx.changes {
		if told[c.id] {
			continue
		}
		switch was := c.was.(type) {
		case *page:
			n.page(was, tx.world.Pages[c.id])
		case *source:
			n.source(was, tx.world.Sources[c.id])
		case *database:
			d := tx.world.Databases[c.id]
			if !tx.world.Hidden[c.id] {
				n.lifecycle(ref{ID: c.id, Type: "database"}, d.Parent, was == nil, was != nil && was.Trashed, d.Trashed)
			}
		case *block:
			if on := tx.world.pageOf(tx.world.Blocks[c.id]); was == nil && !on.Created.Equal(tx.now) { // the content of a new page is no event
				n.content(parent{Page: on.ID}, ref{ID: c.id, Type: "block"})
			}
		case *comment:
			n.comment(was, tx.world.Comments[c.id])
		default:
			continue // lists of ids, whose elements change as well
		}
		told[c.id] = true
	}
	return n.events
}

// add tells of an entity in that place, and returns the event for more to be said.
func (n *news) add(kind string, entity ref, in parent) *hookEvent {
	author := ref{ID: n.user, Type: "bot"}
	if u := n.world.Users[n.user]; u != nil && u.Person {
		author.Type = "person"
	} else if u != nil && u.Agent {
		author.Type = "agent"
	}
	ev := &hookEvent{
		Authors: []ref{author}, Type: kind, Entity: entity, Data: eventData{Parent: n.world.refTo(in)},
	}
	n.events = append(n.events, ev)
	return ev
}

// refTo names a parent.
func (w *world) refTo(p parent) ref {
	switch {
	case p.Source != "":
		return ref{ID: w.Sources[p.Source].Database, Type: "database", Source: p.Source}
	case p.Database != "":
		return ref{ID: p.Database, Type: "database"}
	case p.Page != "":
		return ref{ID: p.Page, Type: "page"}
	case p.Block != "":
		return ref{ID: p.Block, Type: "block"}
	}
	return ref{ID: workspaceID, Type: "space"}
}

// lifecycle tells that an object was made, trashed or restored, and whether it did.
func (n *news) lifecycle(entity ref, in parent, isNew, wasTrashed, isTrashed bool) bool {
	switch {
	case isNew:
		n.add(entity.Type+".created", entity, in)
	case isTrashed && !wasTrashed:
		n.add(entity.Type+".deleted", entity, in)
	case wasTrashed && !isTrashed:
		n.add(entity.Type+".undeleted", entity, in)
	default:
		return false
	}
	return true
}

// content tells that something came into a page or a data source, or left it.
func (n *news) content(in parent, what ref) {
	var ev *hookEvent
	if s := n.world.Sources[in.Source]; s != nil && !n.world.Hidden[s.Database] {
		ev = n.add("data_source.content_updated", ref{ID: s.ID, Type: "data_source"}, parent{Database: s.Database})
	} else if p := n.world.Pages[in.Page]; p != nil && !n.world.hidden(p) {
		ev = n.add("page.content_updated", ref{ID: p.ID, Type: "page"}, p.Parent)
	}
	if ev != nil {
		ev.Data.Blocks = []ref{what}
	}
}

func (n *news) page(was, is *page) {
	if is == nil || n.world.hidden(is) {
		return
	}
	self := ref{ID: is.ID, Type: "page"}
	if n.lifecycle(self, is.Parent, was == nil, was != nil && was.Trashed, is.Trashed) {
		n.content(is.Parent, self)
	}
	if was == nil {
		return
	}
	if was.Locked != is.Locked {
		n.add(map[bool]string{true: "page.locked", false: "page.unlocked"}[is.Locked], self, is.Parent)
	}
	if was.Parent != is.Parent {
		n.add("page.moved", self, is.Parent)
		n.content(was.Parent, self)
		n.content(is.Parent, self)
		return // its properties are those of another schema
	}
	properties := []property{{ID: titleID}}
	if s := n.world.source(is); s != nil {
		properties = s.Properties
	}
	var ids []any
	for _, p := range properties {
		if !bytes.Equal(compact(was.Values[p.ID]), compact(is.Values[p.ID])) {
			ids = append(ids, p.ID)
		}
	}
	if ids != nil {
		n.add("page.properties_updated", self, is.Parent).Data.Properties = ids
	}
}

func (n *news) source(was, is *source) {
	if n.world.Hidden[is.Database] {
		return
	}
	self, in := ref{ID: is.ID, Type: "data_source"}, parent{Database: is.Database}
	if n.lifecycle(self, in, was == nil, was != nil && was.Trashed, is.Trashed) && was == nil {
		return
	}
	left := map[string][]byte{} // of the properties of before
	for _, p := range was.Properties {
		left[p.ID] = compact(p)
	}
	var changes []any
	for _, p := range is.Properties {
		if old := left[p.ID]; old == nil {
			changes = append(changes, propertyChange{p.ID, p.Name, "created"})
		} else if !bytes.Equal(old, compact(p)) {
			changes = append(changes, propertyChange{p.ID, p.Name, "updated"})
		}
		delete(left, p.ID)
	}
	for _, p := range was.Properties {
		if left[p.ID] != nil {
			changes = append(changes, propertyChange{p.ID, p.Name, "deleted"})
		}
	}
	if changes != nil {
		n.add("data_source.schema_updated", self, in).Data.Properties = changes
	}
}

// comment tells of a new comment. One that is resolved has no event.
func (n *news) comment(was, is *comment) {
	on := n.world.Pages[is.Parent.Page]
	if b := n.world.Blocks[is.Parent.Block]; b != nil {
		on = n.world.pageOf(b)
	}
	if was != nil || on == nil || n.world.hidden(on) {
		return
	}
	n.user = is.CreatedBy
	n.add("comment.created", ref{ID: is.ID, Type: "comment"}, is.Parent).Data.Page = on.ID
}
