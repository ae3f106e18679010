package testkit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// Bubble runs a test of that name in virtual time.
func Bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Got returns what a call returned, and ends the test if that is an error: Got(os.ReadFile(path))(t).
func Got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// OK fails the test if err is not nil, and lets it go on.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Check fails the test unless ok, with a message as Errorf, and lets it go on.
func Check(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Require ends the test unless ok, with a message as Fatalf.
func Require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Same fails the test with the difference if what it got is not what it wants.
func Same(t testing.TB, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// Says fails the test for every part that the text of that name lacks.
func Says(t testing.TB, name, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", name, part, text)
		}
	}
}

// Fails fails the test unless err is an error, of one line, that says all parts.
func Fails(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("there is no error, want one that says %q", parts)
		return
	}
	Check(t, !strings.Contains(err.Error(), "\n"), "the error has several lines: %v", err)
	Says(t, "the error", err.Error(), parts...)
}

// Refused is Fails for a call that returns something beside an error: Refused(os.Open(path))(t, "no such file").
func Refused[T any](_ T, err error) func(t testing.TB, parts ...string) {
	return func(t testing.TB, parts ...string) {
		t.Helper()
		Fails(t, err, parts...)
	}
}
