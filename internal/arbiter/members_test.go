package arbiter_test

import (
	"testing"
	"time"

	"dibs/internal/arbiter"
	"dibs/internal/arbiter/arbitertest"
)

// Members are listed as long as they announce themselves, with what they said last; to be
// heard of often does not write anything each time.
func TestMembers(t *testing.T) {
	etcd := arbitertest.Start(t)
	a, b := join(t, etcd.URL(), t.TempDir()), join(t, etcd.URL(), t.TempDir())
	now := time.Now().Truncate(time.Second).UTC()
	for i, m := range []*member{a, b, b} {
		if err := m.etcd.Announce(t.Context(), arbiter.Member{SeenAt: now.Add(time.Duration(i) * time.Second), RequestsPerMinute: 7}); err != nil {
			t.Fatal(err)
		}
	}
	members, err := a.etcd.Members(t.Context())
	if err != nil || len(members) != 2 {
		t.Fatalf("members %+v, %v", members, err)
	}
	for _, m := range members {
		want := now
		if m.ID == b.etcd.Member() {
			want = now.Add(time.Second) // the second time it was only kept
		}
		if m.Name != "a" || m.RequestsPerMinute != 7 || !m.SeenAt.Equal(want) {
			t.Errorf("member %+v, want seen at %v", m, want)
		}
	}
	if err := b.etcd.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if members, err := a.etcd.Members(t.Context()); err != nil || len(members) != 1 || members[0].ID != a.etcd.Member() {
		t.Errorf("after one left: %+v, %v", members, err)
	}
}
