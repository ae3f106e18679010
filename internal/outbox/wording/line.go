package wording

import (
	"context"
	"log/slog"
	"time"

	"dibs/internal/claim"
)

// saying is how the daemon's log says a kind of fact.
type saying struct {
	level slog.Level
	text  string
}

// sayings are the kinds of facts in the daemon's log. At info is what changes who has a task, or
// says that the work on it is over. At debug is what comes often, and what others have on record:
// refusals, renewals, messages, reservations.
var sayings = map[claim.Kind]saying{
	claim.KindGranted:    {slog.LevelInfo, "a claim was granted"},
	claim.KindCompleted:  {slog.LevelInfo, "a task was completed"},
	claim.KindReview:     {slog.LevelInfo, "a task was handed in for review"},
	claim.KindFailed:     {slog.LevelInfo, "an agent failed at its task"},
	claim.KindBlocked:    {slog.LevelInfo, "a task is blocked"},
	claim.KindReleased:   {slog.LevelInfo, "a task was given back"},
	claim.KindAccepted:   {slog.LevelInfo, "an offer was accepted"},
	claim.KindOffered:    {slog.LevelInfo, "a task was offered"},
	claim.KindDeclined:   {slog.LevelInfo, "a task was declined"},
	claim.KindExpired:    {slog.LevelInfo, "an offer was not answered in time"},
	claim.KindLost:       {slog.LevelInfo, "a claim was lost"},
	claim.KindOrphaned:   {slog.LevelInfo, "work was finished after its claim was lost"},
	claim.KindOverridden: {slog.LevelInfo, "a stale claim was taken over"},
	claim.KindSwept:      {slog.LevelInfo, "a stale claim was swept"},
	claim.KindReopened:   {slog.LevelInfo, "a task was reopened"},
	claim.KindCancelled:  {slog.LevelInfo, "a task was cancelled"},
	claim.KindWithdrawn:  {slog.LevelInfo, "an attempt was taken back out of Notion"},
	claim.KindConflict:   {slog.LevelInfo, "a claim was overwritten, and was repaired"},
	claim.KindPaused:     {slog.LevelInfo, "grants were paused"},
	claim.KindResumed:    {slog.LevelInfo, "grants go on"},

	claim.KindDenied:     {slog.LevelDebug, "a claim was denied"},
	claim.KindContested:  {slog.LevelDebug, "claims were denied while somebody had the task"},
	claim.KindRenewed:    {slog.LevelDebug, "a lease was renewed"},
	claim.KindExpiring:   {slog.LevelDebug, "a lease is about to end"},
	claim.KindCleared:    {slog.LevelDebug, "what an ended claim had left was taken off its task"},
	claim.KindAdded:      {slog.LevelDebug, "a task was made"},
	claim.KindCommented:  {slog.LevelDebug, "a task was commented on"},
	claim.KindMessage:    {slog.LevelDebug, "a message was sent"},
	claim.KindReserved:   {slog.LevelDebug, "something was reserved"},
	claim.KindUnreserved: {slog.LevelDebug, "a reservation is over"},
}

// said returns how the daemon's log says a fact.
func said(f claim.Fact) saying {
	if f.Kind == claim.KindCommented && f.By == claim.Sweeper {
		return saying{slog.LevelInfo, "a task was told that it can never become ready"}
	}
	return sayings[f.Kind]
}

// Lines writes facts into the daemon's log, a line each.
type Lines struct{ log *slog.Logger }

// NewLines returns lines for a log.
func NewLines(log *slog.Logger) Lines { return Lines{log} }

// Want reports whether the log has a line for a fact, at the level that it has now.
func (l Lines) Want(f claim.Fact) bool {
	s := said(f)
	return s.text != "" && l.log.Enabled(context.Background(), s.level)
}

// Write writes the line of a fact.
func (l Lines) Write(f claim.Fact) {
	s := said(f)
	l.log.LogAttrs(context.Background(), s.level, s.text, attrs(f)...)
}

// attrs returns the attributes of a fact's line: those that have a value, always in the same order.
func attrs(f claim.Fact) []slog.Attr {
	out := []slog.Attr{slog.String(claim.AttrEvent, string(f.Kind))}
	text := func(key, value string) {
		if value = claim.Brief(value); value != "" {
			out = append(out, slog.String(key, value))
		}
	}
	text(claim.AttrKey, f.Key)
	text(claim.AttrTitle, f.Title)
	text(claim.AttrAgent, f.Agent)
	if f.Holder != f.Agent {
		text(claim.AttrHolder, f.Holder)
	}
	text(claim.AttrBy, f.By)
	text(claim.AttrTask, string(f.Task))
	text(claim.AttrClaim, string(f.Claim))
	text(claim.AttrFormer, string(f.Former))
	if f.Fence != 0 {
		out = append(out, slog.Int64(claim.AttrFence, f.Fence))
	}
	if f.Assigned {
		out = append(out, slog.Bool(claim.AttrAssigned, true))
	}
	if !f.Expires.IsZero() {
		text(claim.AttrUntil, f.Expires.UTC().Format(time.RFC3339)) // the same in every format of a log
	}
	text(claim.AttrCode, string(f.Code))
	if f.Count > 0 {
		out = append(out, slog.Int(claim.AttrCount, f.Count))
	}
	text(claim.AttrReason, f.Detail)
	text(claim.AttrSummary, f.Summary)
	return out
}
