package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api/client"
	"dibs/internal/testkit"
)

// A task is passed over for longer each time that it is put off, and then to be had again.
func TestPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l later
		want := func(due time.Duration, want ...string) {
			t.Helper()
			ids, left := l.pending()
			testkit.Check(t, left == due && slices.Equal(ids, want), "pending() = %v, %v, want %v, %v", ids, left, want, due)
		}
		want(0)
		l.add("a")
		time.Sleep(2 * time.Second)
		l.add("b")
		want(3*time.Second, "a", "b")
		time.Sleep(3 * time.Second)
		want(2*time.Second, "b")
		l.add("a")
		want(2*time.Second, "b", "a")
		time.Sleep(2 * time.Second)
		want(8*time.Second, "a")
		for range 100 {
			l.add("a")
		}
		want(5*time.Minute, "a")
		time.Sleep(5 * time.Minute)
		want(0)
	})
}

// A claim whose lease is over is lost where nobody answers for a minute.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := keeping{daemon: client.Over("/s", func(context.Context) (net.Conn, error) {
			mine, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			return mine, nil
		})}
		_, err := k.judge(t.Context())
		took := time.Since(began)
		testkit.Check(t, errors.Is(err, ErrLost) && took == insist, "%v after %v", err, took)
	})
}
