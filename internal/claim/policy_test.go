package claim_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/claim"
	"dibs/internal/claim/sim"
)

func TestPolicyValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*claim.Policy)
		says   string // empty for a valid policy
	}{
		{"the default", func(*claim.Policy) {}, ""},
		{"settle just above the window", func(p *claim.Policy) { p.Settle = p.WriteWindow + 1 }, ""},
		{"settle equal to the window", func(p *claim.Policy) { p.Settle = p.WriteWindow }, "longer than the write window 2s"},
		{"settle below the window", func(p *claim.Policy) { p.Settle = time.Second }, "settle 1s must be longer"},
		{"the same for an only claimer", func(p *claim.Policy) { p.Settle, p.Exclusive = 0, true }, ""},
		{"negative settle for an only claimer", func(p *claim.Policy) { p.Settle, p.Exclusive = -1, true }, "must not be negative"},
		{"no window", func(p *claim.Policy) { p.WriteWindow = 0 }, "write window 0s: must be positive"},
		{"a lease below a minute", func(p *claim.Policy) { p.Timeout = 59 * time.Second }, "at least a minute"},
		{"a lease shorter than an attempt", func(p *claim.Policy) { p.Timeout, p.Settle = time.Minute, time.Minute }, "window and settle together"},
		{"a request as long as it may take", func(p *claim.Policy) { p.Request = 15 * time.Second }, ""},
		{"a longer request", func(p *claim.Policy) { p.Request = 15*time.Second + 1 }, "on the claim of the next holder"},
		{"the same for an only claimer", func(p *claim.Policy) { p.Request, p.Exclusive = time.Minute, true }, ""},
		{"negative lifetime", func(p *claim.Policy) { p.MaxLifetime = -1 }, "must not be negative"},
		{"negative number of tasks", func(p *claim.Policy) { p.MaxPerAgent = -1 }, "must not be negative"},
		{"negative grace", func(p *claim.Policy) { p.Grace = -1 }, "must not be negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := sim.Policy()
			tt.change(&p)
			err := p.Validate()
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
			_, nerr := claim.New(claim.Config{Policy: p, Ledger: sim.NewLedger(), Store: sim.NewRegister().Store(sim.StoreOptions{})})
			if (nerr == nil) != (err == nil) {
				t.Errorf("New: %v, Validate: %v", nerr, err)
			}
		})
	}
}
