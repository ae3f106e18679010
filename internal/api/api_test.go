package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/claim"

	"github.com/google/go-cmp/cmp"
)

// TestCodes pins the table of codes, which scripts rely on.
func TestCodes(t *testing.T) {
	for code, want := range map[api.Code]struct{ status, exit int }{
		api.Code(claim.CodeHeld):                {409, 3},
		api.Code(claim.CodeNotOpen):             {409, 3},
		api.Code(claim.CodeLostRace):            {409, 3},
		api.Code(claim.CodeBlockedByDependency): {409, 3},
		api.Code(claim.CodeReserved):            {409, 3},
		api.Code(claim.CodeNothingReady):        {409, 3},
		api.Code(claim.CodeLimitReached):        {409, 3},
		api.Code(claim.CodeNotFound):            {404, 3},
		api.Code(claim.CodeNotionUnavailable):   {503, 6},
		api.Code(claim.CodeJournalUnavailable):  {503, 6},
		api.CodeNotionRefused:                   {502, 6},
		api.CodeClaimLost:                       {409, 4},
		api.CodeUnknownClaim:                    {404, 4},
		api.CodeAmbiguousClaim:                  {409, 2},
		api.CodeInvalidRequest:                  {422, 2},
		api.CodeForbiddenAgent:                  {403, 1},
		api.CodeKeyReused:                       {422, 2},
		api.CodeTooLarge:                        {413, 2},
		api.CodeWrongMethod:                     {405, 2},
		api.CodeWrongMediaType:                  {415, 2},
		api.CodeNoRoute:                         {404, 2},
		api.CodeWrongHost:                       {421, 2},
		api.CodeBusy:                            {503, 5},
		api.CodeStopping:                        {503, 5},
		api.CodeInternal:                        {500, 1},
		api.CodeUnreachable:                     {0, 5},
		api.CodeUsage:                           {0, 2},
		api.CodeFailed:                          {0, 1},
		"from_the_future":                       {0, 1},
	} {
		if code.Status() != want.status || code.Exit() != want.exit {
			t.Errorf("%s: status %d, exit code %d; want %+v", code, code.Status(), code.Exit(), want)
		}
	}
}

func TestProblem(t *testing.T) {
	p := api.NewProblem(api.CodeTooLarge, "that is much")
	p.RetryIn(1001 * time.Millisecond)
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"urn:dibs:problem:too_large","title":"The request is too large","status":413,"detail":"that is much","code":"too_large","retry_after":2}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("problem (-want +got):\n%s", diff)
	}
	var asError error = p
	if back, ok := errors.AsType[*api.Problem](asError); !ok || back.Error() != "that is much" {
		t.Errorf("as an error it says %q", asError)
	}
}

func TestTime(t *testing.T) {
	kathmandu := time.FixedZone("", 5*3600+45*60)
	for _, tt := range []struct {
		time time.Time
		want string
	}{
		{time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), `"2026-11-20T12:00:00.000Z"`},
		{time.Date(2026, 11, 20, 17, 45, 0, 999999999, kathmandu), `"2026-11-20T12:00:00.999Z"`},
	} {
		got, err := json.Marshal(api.Time{Time: tt.time})
		if err != nil || string(got) != tt.want {
			t.Errorf("Marshal(%v) = %s, %v; want %s", tt.time, got, err, tt.want)
		}
		var back api.Time
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(tt.time.Truncate(time.Millisecond)) {
			t.Errorf("Unmarshal(%s) = %v, %v", got, back, err)
		}
	}
	if got, _ := json.Marshal(api.Claim{}); strings.Contains(string(got), "_at") {
		t.Errorf("times that are not known are written: %s", got)
	}
}

func TestValidateKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"k": true, "a b~!": true, strings.Repeat("k", 200): true,
		"": false, strings.Repeat("k", 201): false, "a\nb": false, "\x7f": false, "é": false,
	} {
		if err := api.ValidateKey(key); (err == nil) != ok {
			t.Errorf("ValidateKey(%q) = %v, want accepted: %v", key, err, ok)
		}
	}
}
