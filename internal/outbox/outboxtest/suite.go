package outboxtest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"dibs/internal/outbox"

	"github.com/google/go-cmp/cmp"
)

// World is one ledger.
type World struct {
	outbox.Ledger
	// Begin begins a request with an unused key.
	Begin func(t *testing.T, uid int, key string)
	// Restart returns the ledger as a new process opens it.
	Restart func() outbox.Ledger
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// LedgerSuite tests the ledgers that open returns; each is new and empty.
func LedgerSuite(t *testing.T, open func(t *testing.T) World) {
	for name, test := range map[string]func(*testing.T, *World){
		"the life of an intent":               life,
		"what was being sent is in doubt":     cutOff,
		"nothing waits beyond a time":         hurried,
		"one gets to send an intent":          one,
		"what is in Notion is one intent's":   taken,
		"a request has one intent":            requests,
		"what came to nothing is forgotten":   dropped,
		"kinds are told apart":                kinds,
		"the first that is due is the next":   first,
		"nothing brings back what is done":    final,
		"intents come in order, so many":      ordered,
		"what is not there cannot be changed": absent,
		"what is sent together goes together": together,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			test(t, &w)
		})
	}
}

func (w *World) owe(t *testing.T, ids ...string) (list []outbox.Intent) {
	t.Helper()
	for _, id := range ids {
		in, err := w.Owe(t.Context(), outbox.Intent{ID: id, Kind: outbox.Creation, At: t0})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, in)
	}
	return list
}

// want fails the test unless exactly these intents may be tried at that time.
func (w *World) want(t *testing.T, now time.Time, want ...outbox.Intent) {
	t.Helper()
	got, err := w.NextOwed(t.Context(), outbox.Creation, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NextOwed (-want +got):\n%s", diff)
	}
}

// wantAt fails the test unless the next intent may be tried at that time; nil for never.
func (w *World) wantAt(t *testing.T, want *time.Time) {
	t.Helper()
	got, ok, err := w.NextOwedAt(t.Context(), outbox.Creation)
	if err != nil || ok != (want != nil) || ok && !got.Equal(*want) {
		t.Errorf("NextOwedAt = %v, %v, %v, want %v", got, ok, err, want)
	}
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func life(t *testing.T, w *World) {
	ctx := t.Context()
	w.wantAt(t, nil)
	list := w.owe(t, "a", "b")
	a, b := list[0], list[1]
	if a.State != outbox.Due || a.Seq == b.Seq {
		t.Errorf("added %+v and %+v", a, b)
	}
	w.want(t, t0, a, b)
	w.wantAt(t, &time.Time{})

	// Sent, and refused: to be sent again in a minute.
	in1, in2 := t0.Add(time.Minute), t0.Add(2*time.Minute)
	do(t, w.StartSending(ctx, a, t0))
	w.want(t, t0.Add(time.Hour), b)
	do(t, w.Retry(ctx, a, in1, errors.New("rate limited")))
	a.Tries, a.Sent = 1, t0
	w.want(t, in1.Add(-time.Millisecond), b)
	w.want(t, in1, a, b)

	// Sent again, and no answer: to be looked up in two minutes.
	do(t, w.StartSending(ctx, a, in1), w.NoteInDoubt(ctx, a, in2, errors.New("connection reset")))
	a.State, a.Tries, a.Sent = outbox.Doubted, 2, in1
	w.want(t, in1, b)
	w.want(t, in2, a, b)

	// The other one is delivered: only the first is left to wait for.
	do(t, w.StartSending(ctx, b, in1), w.Delivered(ctx, b, "", in1))
	w.want(t, in2, a)
	w.wantAt(t, &in2)

	// The lookup does not find it: it is sent once more, and delivered.
	do(t, w.Retry(ctx, a, in2, nil))
	a.State = outbox.Due
	w.want(t, in2, a)
	do(t, w.StartSending(ctx, a, in2))
	w.wantAt(t, nil)
	do(t, w.Delivered(ctx, a, "page", in2))
	w.want(t, in2.Add(time.Hour))
}

func cutOff(t *testing.T, w *World) {
	list := w.owe(t, "due", "sent", "refused", "delivered")
	for _, in := range list[1:] {
		do(t, w.StartSending(t.Context(), in, t0))
	}
	do(t, w.Retry(t.Context(), list[2], t0, nil), w.Delivered(t.Context(), list[3], "page", t0))
	w.Ledger = w.Restart()
	for i := range list[1:3] {
		list[i+1].Tries, list[i+1].Sent = 1, t0
	}
	list[1].State = outbox.Doubted
	w.want(t, t0, list[:3]...)
}

func hurried(t *testing.T, w *World) {
	ctx := t.Context()
	list := w.owe(t, "near", "far", "doubted")
	soon, latest, hour := t0.Add(time.Minute), t0.Add(10*time.Minute), t0.Add(time.Hour)
	do(t, w.Retry(ctx, list[0], soon, nil), w.Retry(ctx, list[1], hour, nil), w.NoteInDoubt(ctx, list[2], hour, nil))
	list[2].State = outbox.Doubted
	do(t, w.Hurry(ctx, outbox.MeshEntry, t0), w.Hurry(ctx, outbox.Creation, latest))
	w.want(t, latest.Add(-time.Millisecond), list[0])
	w.want(t, latest, list...)
}

func one(t *testing.T, w *World) {
	in := w.owe(t, "a")[0]
	var errs [10]error
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.StartSending(t.Context(), in, t0) })
	}
	all.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
		}
	}
	if got != 1 {
		t.Errorf("%d got to send it, want 1", got)
	}
}

func taken(t *testing.T, w *World) {
	list := w.owe(t, "a", "b", "c", "d")
	do(t, w.Delivered(t.Context(), list[0], "page", t0))
	if err := w.Delivered(t.Context(), list[1], "page", t0); !errors.Is(err, outbox.ErrTaken) {
		t.Errorf("the page of another: %v", err)
	}
	w.want(t, t0, list[1:]...)
	do(t, w.Delivered(t.Context(), list[1], "another", t0))
	do(t, w.Delivered(t.Context(), list[2], "", t0), w.Delivered(t.Context(), list[3], "", t0)) // any number may have no ref
	w.want(t, t0)
}

// wantFor fails the test unless that intent is bound to a request; nil for none.
func (w *World) wantFor(t *testing.T, uid int, key string, want *outbox.Intent) {
	t.Helper()
	got, ok, err := w.OwedFor(t.Context(), uid, key)
	if err != nil || ok != (want != nil) {
		t.Fatalf("OwedFor = %+v, %v, %v", got, ok, err)
	}
	if ok && !cmp.Equal(*want, got) {
		t.Errorf("OwedFor (-want +got):\n%s", cmp.Diff(*want, got))
	}
}

func requests(t *testing.T, w *World) {
	w.Begin(t, 1000, "k")
	w.wantFor(t, 1000, "k", nil)
	in, err := w.Owe(t.Context(), outbox.Intent{ID: "a", Kind: outbox.Creation, At: t0, UID: 1000, Key: "k"})
	do(t, err)
	w.owe(t, "b")
	w.wantFor(t, 1000, "k", &in)
	w.wantFor(t, 0, "k", nil)
	w.wantFor(t, 1000, "", nil)
	do(t, w.StartSending(t.Context(), in, t0))
	in.State, in.Tries, in.Sent = outbox.Sending, 1, t0
	w.wantFor(t, 1000, "k", &in)
	do(t, w.Delivered(t.Context(), in, "page", t0))
	in.State, in.Ref = outbox.Delivered, "page"
	w.wantFor(t, 1000, "k", &in)
}

func dropped(t *testing.T, w *World) {
	w.Begin(t, 1000, "k")
	in, err := w.Owe(t.Context(), outbox.Intent{ID: "a", Kind: outbox.Creation, At: t0, UID: 1000, Key: "k"})
	do(t, err, w.StartSending(t.Context(), in, t0), w.Drop(t.Context(), in))
	w.wantFor(t, 1000, "k", nil)
	w.Ledger = w.Restart()
	w.want(t, t0)
}

func kinds(t *testing.T, w *World) {
	w.owe(t, "a")
	for _, kind := range []outbox.Kind{outbox.MeshEntry, outbox.TaskEntry, outbox.Comment} {
		if got, err := w.NextOwed(t.Context(), kind, t0, 0); err != nil || len(got) > 0 {
			t.Errorf("NextOwed(%s) = %+v, %v, want none", kind, got, err)
		}
		if _, ok, err := w.NextOwedAt(t.Context(), kind); err != nil || ok {
			t.Errorf("NextOwedAt(%s) = %v, %v, want none", kind, ok, err)
		}
	}
}

func first(t *testing.T, w *World) {
	for i, in := range w.owe(t, "a", "b", "c") {
		do(t, w.Retry(t.Context(), in, t0.Add(time.Duration((i+1)%3)*time.Minute), nil))
	}
	w.wantAt(t, &t0)
}

func final(t *testing.T, w *World) {
	in := w.owe(t, "a")[0]
	do(t, w.Delivered(t.Context(), in, "page", t0))
	w.unchanged(t, in)
}

func absent(t *testing.T, w *World) {
	in := w.owe(t, "a")[0]
	do(t, w.Drop(t.Context(), in))
	w.unchanged(t, in)
}

// unchanged fails the test if an intent can still be changed.
func (w *World) unchanged(t *testing.T, in outbox.Intent) {
	t.Helper()
	for name, err := range map[string]error{
		"StartSending": w.StartSending(t.Context(), in, t0),
		"NoteInDoubt":  w.NoteInDoubt(t.Context(), in, t0, nil),
		"Retry":        w.Retry(t.Context(), in, t0, nil),
		"Delivered":    w.Delivered(t.Context(), in, "another", t0),
	} {
		if err == nil || errors.Is(err, outbox.ErrTaken) {
			t.Errorf("%s: %v, want that it cannot be changed", name, err)
		}
	}
	w.want(t, t0.Add(time.Hour))
	w.wantAt(t, nil)
}

func ordered(t *testing.T, w *World) {
	list := w.owe(t, "c", "a", "b")
	do(t, w.Retry(t.Context(), list[1], t0.Add(time.Minute), nil))
	got, err := w.NextOwed(t.Context(), outbox.Creation, t0.Add(time.Hour), 2)
	if diff := cmp.Diff(list[:2], got); err != nil || diff != "" {
		t.Errorf("the first two (%v):\n%s", err, diff)
	}
}

// Those with an intent change with it, or nothing does.
func together(t *testing.T, w *World) {
	list := w.owe(t, "a", "b", "c")
	both, clash := list[0], list[2]
	both.With, clash.With = list[1:2], list[:1]
	do(t, w.StartSending(t.Context(), both, t0))
	w.want(t, t0.Add(time.Hour), list[2])
	if err := w.StartSending(t.Context(), clash, t0); err == nil {
		t.Error("one that is being sent is sent with another")
	}
	w.want(t, t0.Add(time.Hour), list[2])
	do(t, w.Delivered(t.Context(), both, "", t0))
	w.want(t, t0.Add(time.Hour), list[2])
}
