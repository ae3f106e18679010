package mcp

import (
	"cmp"
	"context"
	"encoding/json"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"
)

// caller is the caller of a tool: an agent of that name, or else the agent of the client's session,
// or of the thread that the request names.
type caller struct {
	name   string
	thread string
}

// maxWatched is how many agents a bridge watches even while they call no tool: each takes a
// connection to the daemon.
const maxWatched = 32

// agent returns the calling agent, and watches its claims from now on.
func (b *Bridge) agent(ctx context.Context, who caller) (*agent, error) {
	name := task.Name(cmp.Or(who.name, b.options.Agent))
	if name == "" {
		var err error
		if name, err = b.nameOf(ctx, who); err != nil {
			return nil, err
		}
	}
	if err := task.ValidateAgent(name); err != nil {
		return nil, usagef("agent %q: %v", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a, known := b.agents[name]
	if !known {
		a = newAgent(name)
		b.agents[name] = a
		if len(b.agents) <= maxWatched {
			b.background.Go(func() { b.watch(a) })
		}
	}
	return a, nil
}

func newAgent(name string) *agent { return &agent{name: name, claims: make(map[claim.ID]api.Claim)} }

// isAnother reports whether the named agent is neither the caller nor one that the bridge works
// for: this bridge must not keep its claims. A bridge without a name of its own works for whoever
// is named.
func (b *Bridge) isAnother(who caller) bool {
	if task.ValidateAgent(who.name) != nil || who.name == b.options.Agent {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.agents[who.name]
	return !known && (b.options.Agent != "" || b.options.Session(who.thread) != "")
}

// nameOf returns the name of a session's agent: the same one at every call. If the client names no
// sessions, the name lasts as long as the bridge.
func (b *Bridge) nameOf(ctx context.Context, who caller) (string, error) {
	b.mu.Lock()
	id := b.options.Session(who.thread)
	name, known := b.names[id]
	b.mu.Unlock()
	if known {
		return name, nil
	}
	daemon, err := b.options.Daemon()
	if err != nil {
		return "", err
	}
	b.minting.Lock() // two calls of one session must not get two names
	defer b.minting.Unlock()
	b.mu.Lock()
	name, known = b.names[id]
	b.mu.Unlock()
	if known {
		return name, nil
	}
	key := newKey()
	minted, err := insist(ctx, func() (api.Minted, error) {
		return daemon.Mint(ctx, api.MintRequest{Session: id}, key)
	})
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names[id] = minted.Agent
	return minted.Agent, nil
}

// threadOf returns the client's thread that a request belongs to, from the request's metadata.
// Codex sends it with every call (https://github.com/openai/codex/pull/18093, and before that
// https://github.com/openai/codex/pull/21329), with the value that its shells have in
// CODEX_THREAD_ID.
func threadOf(meta map[string]any) string {
	if id, ok := meta["threadId"].(string); ok && id != "" {
		return id
	}
	turn := meta["x-codex-turn-metadata"]
	if text, ok := turn.(string); ok {
		var parsed map[string]any
		if json.Unmarshal([]byte(text), &parsed) == nil {
			turn = parsed
		}
	}
	if fields, ok := turn.(map[string]any); ok {
		for _, key := range []string{"thread_id", "session_id"} {
			if id, ok := fields[key].(string); ok && id != "" {
				return id
			}
		}
	}
	return ""
}
