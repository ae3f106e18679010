package claimtest

import "dibs/internal/claim/claimsim"

// The names of claimsim under which the tests of package claim still know it.
type (
	Daemon        = claimsim.Daemon
	DaemonOptions = claimsim.DaemonOptions
	Delay         = claimsim.Delay
	Fault         = claimsim.Fault
	Kind          = claimsim.Kind
	Pick          = claimsim.Pick
	Register      = claimsim.Register
	StoreOptions  = claimsim.StoreOptions
)

const (
	SyncInterval = claimsim.SyncInterval

	Reads       = claimsim.Reads
	Claims      = claimsim.Claims
	Renewals    = claimsim.Renewals
	Completions = claimsim.Completions
	Openings    = claimsim.Openings
	Blockings   = claimsim.Blockings
	Voidings    = claimsim.Voidings
)

var (
	Always         = claimsim.Always
	AnswerDropped  = claimsim.AnswerDropped
	AppliedLate    = claimsim.AppliedLate
	Every          = claimsim.Every
	Fails          = claimsim.Fails
	InTurn         = claimsim.InTurn
	KindOf         = claimsim.KindOf
	Late           = claimsim.Late
	NewLedger      = claimsim.NewLedger
	NewRegister    = claimsim.NewRegister
	NotApplied     = claimsim.NotApplied
	On             = claimsim.On
	Policy         = claimsim.Policy
	ReadFails      = claimsim.ReadFails
	RequestDropped = claimsim.RequestDropped
	SavedBut503    = claimsim.SavedBut503
	Slow           = claimsim.Slow
	SlowRead       = claimsim.SlowRead
	TurnedAway     = claimsim.TurnedAway
	Uniform        = claimsim.Uniform
	WriteRefused   = claimsim.WriteRefused
)
