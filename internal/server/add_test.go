package server_test

import (
	"testing"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim"
	"dibs/internal/creation"
	"dibs/internal/server/servertest"
	"dibs/internal/task"
)

// What keeps a task from being made has a code, and the caller is told if it is not known
// whether it was.
func TestAddRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		status  int
		code    api.Code
		unknown bool
	}{
		"not known": {&creation.UnknownError{Err: claim.Errorf(claim.Unavailable, claim.LandedUnknown, "it is not known")}, 503, api.Code(claim.CodeNotionUnavailable), true},
		"down":      {claim.Errorf(claim.Unavailable, claim.LandedNo, "down"), 503, api.Code(claim.CodeNotionUnavailable), false},
		"draft":     {&task.DraftError{Detail: "no such option"}, 422, api.CodeInvalidRequest, false},
		"reused":    {creation.ErrReused, 422, api.CodeKeyReused, false},
		"nothing":   {broker.ErrNoTask, 404, api.Code(claim.CodeNotFound), false},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := start(t)
			const fingerprint = "e1aed150e50b52e37938ab3c24a5a1c492c5196591d0064cbc6b30a0f7b98a32"
			f.broker.Expect(servertest.Call{Method: "Add", Args: []any{broker.Addition{By: "user unknown", Draft: task.Draft{Title: "Write"}, Fingerprint: fingerprint}}, Err: tt.err})
			got := f.must("POST", "/v1/tasks", `{"title":"Write"}`)
			if p := problemIn(t, got); p.Status != tt.status || p.Code != tt.code || p.Unknown != tt.unknown {
				t.Errorf("answered %s", got.body)
			}
		})
	}
}
