package broker

import (
	"context"
	"strings"

	"dibs/internal/api"
	"dibs/internal/task"
)

// NewToken makes an access token. The error is a *ForbiddenError, an *InvalidError, or the journal's.
func (b *Broker) NewToken(ctx context.Context, who Caller, in *api.KeyedInput[api.TokenRequest]) (api.NewToken, error) {
	if err := who.owner("may make access tokens"); err != nil {
		return api.NewToken{}, err
	}
	made, err := b.tokens.NewToken(ctx, in.Body)
	if err == nil {
		b.log.Info("an access token was made", "token", made.ID, "agent", made.Agent, "expires_at", made.ExpiresAt, "by", who.User)
	}
	return made, err
}

// Tokens returns the access tokens, without their secrets. The error is a *ForbiddenError.
func (b *Broker) Tokens(_ context.Context, who Caller, _ *struct{}) (api.Tokens, error) {
	if err := who.owner("may see the access tokens"); err != nil {
		return api.Tokens{}, err
	}
	return b.tokens.Tokens(), nil
}

// RevokeToken makes an access token invalid. The error is a *ForbiddenError, an *InvalidError, or the
// journal's.
func (b *Broker) RevokeToken(ctx context.Context, who Caller, in *api.TokenInput) (api.Token, error) {
	if err := who.owner("may revoke access tokens"); err != nil {
		return api.Token{}, err
	}
	revoked, err := b.tokens.Revoke(ctx, in.ID)
	if err == nil {
		b.log.Info("an access token was revoked", "token", revoked.ID, "agent", revoked.Agent, "by", who.User)
	}
	return revoked, err
}

// Access returns what the caller's access token allows. The error is an *InvalidError for a user of
// this machine.
func (b *Broker) Access(_ context.Context, who Caller, _ *struct{}) (api.Access, error) {
	if who.Access == nil {
		return api.Access{}, &InvalidError{Detail: "users of this machine need no access token: only callers of other machines show one"}
	}
	return *who.Access, nil
}

// Named returns in whose name a caller does something without naming an agent: empty for a user, who
// signs for it, and the agent of an access token that is for one name. The error is an *api.Problem.
func (c Caller) Named() (string, error) {
	if c.Access == nil {
		return "", nil
	}
	if !strings.Contains(c.Access.Agent, "*") {
		return c.Access.Agent, nil
	}
	return "", api.NewProblem(api.CodeForbidden, "an access token does nothing in nobody's name: name one of its agents")
}

// covers returns a *ForbiddenError unless the caller's access token, if it has one, is for the name.
func (c Caller) covers(agent string) error {
	if c.Access == nil || task.Covers(c.Access.Agent, agent) {
		return nil
	}
	return &ForbiddenError{Agent: agent, Detail: "the access token is for " + c.Access.Agent + ", and not for " + agent + ": use a name that it covers, or another token"}
}

// errPerson refuses what is done in a person's place.
var errPerson = api.NewProblem(api.CodeForbidden, "an access token acts under the names of its agents only: people act on the daemon's machine, or in Notion")
