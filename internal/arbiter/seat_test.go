package arbiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
)

// One member at a time has the seat; what is passed on has its term as a condition, and comes
// to whoever follows, in order and once, or not at all if it was forgotten.
func TestSeatAndWire(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := join(t, etcd.URL(), t.TempDir()).etcd, join(t, etcd.URL(), t.TempDir()).etcd
	ctx := t.Context()
	begin, _, err := b.Newest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first, taken, err := a.TakeSeat(ctx)
	if err != nil || !taken || first.Number <= 0 || first.Member != a.Member() {
		t.Fatalf("the first term: %+v, %v, %v", first, taken, err)
	}
	if _, taken, err := b.TakeSeat(ctx); err != nil || taken {
		t.Errorf("a seat that is taken: %v, %v", taken, err)
	}
	if now, err := b.Leader(ctx); err != nil || now != first {
		t.Errorf("leader %+v, %v; want %+v", now, err, first)
	}
	if kept, err := a.KeepSeat(ctx, first); err != nil || !kept {
		t.Errorf("kept: %v, %v", kept, err)
	}
	publish := func(e *arbiter.Etcd, term int64, data string, want bool) {
		t.Helper()
		if led, err := e.Publish(ctx, term, []byte(data)); err != nil || led != want {
			t.Errorf("publishing %s: %v, %v; want %v", data, led, err, want)
		}
	}
	publish(a, first.Number, "one", true)
	publish(a, first.Number, "two", true)
	if err := a.LeaveSeat(ctx, first); err != nil {
		t.Error(err)
	}
	publish(a, first.Number, "late", false)
	if kept, err := a.KeepSeat(ctx, first); err != nil || kept {
		t.Errorf("a term that is over was kept: %v, %v", kept, err)
	}
	second, taken, err := b.TakeSeat(ctx)
	if err != nil || !taken || second.Number <= first.Number {
		t.Fatalf("the second term: %+v, %v, %v", second, taken, err)
	}
	publish(a, first.Number, "late", false)
	publish(b, second.Number, "three", true)
	if _, newest, err := a.Newest(ctx); err != nil || string(newest) != "three" {
		t.Errorf("newest %q, %v", newest, err)
	}

	var got []string
	follow := func(after int64, until int) error {
		following, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		return a.Follow(following, after, func(_ int64, data []byte) {
			if got = append(got, string(data)); len(got) == until {
				stop()
			}
		})
	}
	if err := follow(begin, 3); err != nil || fmt.Sprint(got) != "[one two three]" {
		t.Errorf("followed %q, %v", got, err)
	}
	etcd.Compact()
	if err := follow(begin, 4); !errors.Is(err, arbiter.ErrForgotten) {
		t.Errorf("what was forgotten: %v", err)
	}
	if err := follow(begin-2_000_000, 4); !errors.Is(err, arbiter.ErrForgotten) {
		t.Errorf("a position of an etcd that was given up: %v", err)
	}
}
