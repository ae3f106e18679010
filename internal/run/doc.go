// Package run holds what works beside an agent, in a process of its own: the runner of dibs run, worktrees,
// and how a session is told from others of the same user.
//
// It reaches the daemon by package client alone, and stops the agent's command before its claim is
// anybody else's.
package run
