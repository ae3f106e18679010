package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"strings"

	"dibs/internal/api"
	"dibs/internal/claim"
	"dibs/internal/task"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// caller is who asks: an agent of that name or, without one, that of a client's session.
type caller struct {
	name    string
	session string
	client  string // what the client calls itself
}

// agent returns the agent that asks, and looks after its claims from now on.
func (b *Bridge) agent(ctx context.Context, who caller) (*agent, error) {
	name := cmp.Or(who.name, b.options.Agent)
	if name == "" {
		var err error
		if name, err = b.nameOf(ctx, who); err != nil {
			return nil, err
		}
	}
	if err := task.ValidateAgent(name); err != nil {
		return nil, errNoName(name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a, known := b.agents[name]
	if !known {
		a = &agent{name: name, told: make(map[claim.ID]api.Claim)}
		b.agents[name] = a
		b.tasks.Go(func() { b.watch(a) })
	}
	return a, nil
}

// nameOf returns the name of a session's agent: the same one whenever the session asks.
func (b *Bridge) nameOf(_ context.Context, who caller) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	session := cmp.Or(who.session, b.options.Session)
	if name, known := b.names[session]; known {
		return name, nil
	}
	seed := session
	if seed == "" {
		seed = rand.Text()
	}
	sum := sha256.Sum256([]byte(seed))
	name := prefix(who.client) + "-" + base32.StdEncoding.EncodeToString(sum[:])[:4]
	b.names[session] = name
	return name, nil
}

// prefix is what the names of a client's agents begin with.
func prefix(client string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, client), "-")
	return cmp.Or(name[:min(len(name), 20)], "agent")
}

// callerOf reads who sent a request. Codex says in every one which of its threads asks;
// Claude Code sets CLAUDE_CODE_SESSION_ID when it starts the bridge.
func callerOf(req *sdk.CallToolRequest) caller {
	var who caller
	if info := req.ClientInfo(); info != nil {
		who.client = info.Name
	}
	who.session = sessionOf(req.Params.GetMeta())
	return who
}

// sessionOf reads which session of its client a request is of, from what goes with it.
func sessionOf(meta map[string]any) string {
	for _, key := range []string{"threadId", "sessionId"} {
		if id, ok := meta[key].(string); ok && id != "" {
			return id
		}
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
