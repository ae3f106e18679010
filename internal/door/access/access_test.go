package access_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/door/access"
	"dibs/internal/testkit"
)

// storage is a journal's, of one key.
type storage struct {
	mu     sync.Mutex
	text   string
	err    error
	stored int           // how often
	takes  time.Duration // to store
}

const metaTokens = "access.tokens"

func (s *storage) Meta(_ context.Context, key string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != metaTokens {
		return "", errors.New("another key: " + key)
	}
	return s.text, s.err
}

func (s *storage) SetMeta(ctx context.Context, key, text string) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != metaTokens {
		return errors.New("another key: " + key)
	}
	if s.err == nil {
		s.text, s.stored = text, s.stored+1
	}
	return s.err
}

var errDisk = errors.New("the disk is full")

const fingerprint = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// over returns the tokens in the storage.
func over(t *testing.T, s *storage) *access.Tokens {
	t.Helper()
	return testkit.Got(access.New(t.Context(), access.Config{
		Storage: s, Log: slog.New(slog.DiscardHandler),
		Fingerprint: func(context.Context) (string, error) { return fingerprint, nil },
	}))(t)
}

func issue(t *testing.T, tokens *access.Tokens, in api.TokenRequest) api.NewToken {
	t.Helper()
	return testkit.Got(tokens.NewToken(t.Context(), in))(t)
}

// isOver says whether a pass is.
func isOver(p access.Pass) bool {
	select {
	case <-p.Over:
		return true
	default:
		return false
	}
}

func TestTokenFromItsMakingToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		tokens := over(t, s)
		began := api.Time{Time: time.Now()}
		brief := issue(t, tokens, api.TokenRequest{Agent: "ci-*", Note: "the pipeline", ForSeconds: 3600})
		long := issue(t, tokens, api.TokenRequest{Agent: "ci-*"})
		at := func(d time.Duration) api.Time { return api.Time{Time: began.Add(d)} }
		testkit.Same(t, api.NewToken{ID: brief.ID, Token: brief.Token, Agent: "ci-*", ExpiresAt: at(time.Hour)}, brief, "the token of an hour")
		testkit.Same(t, at(30*24*time.Hour), long.ExpiresAt, "the end of a token for which nobody says one")
		secret, ok := api.ParseAccessToken(brief.Token)
		testkit.Check(t, ok && secret.ID == brief.ID && secret.Fingerprint == fingerprint, "the token is %+v", secret)
		testkit.Check(t, !strings.Contains(s.text, secret.Secret), "the secret is stored: %s", s.text)

		first := testkit.Got(tokens.Admit(t.Context(), brief.Token))(t)
		testkit.Check(t, first.UID < -1 && first.Over != nil && !isOver(first), "the caller is %+v", first)
		testkit.Same(t, access.Pass{UID: first.UID, ID: brief.ID, Names: "ci-*", Ends: at(time.Hour).Time, Over: first.Over}, first, "the caller")
		other := testkit.Got(tokens.Admit(t.Context(), long.Token))(t)
		testkit.Check(t, other.UID != first.UID, "two tokens have the number %d", first.UID)

		time.Sleep(30 * time.Minute)
		again := over(t, s)
		list := api.Tokens{Tokens: []api.Token{
			{ID: brief.ID, Agent: "ci-*", Note: "the pipeline", MadeAt: began, ExpiresAt: at(time.Hour), UsedAt: &began},
			{ID: long.ID, Agent: "ci-*", MadeAt: began, ExpiresAt: long.ExpiresAt, UsedAt: &began},
		}}
		testkit.Same(t, list, tokens.Tokens(), "the list")
		testkit.Same(t, list, again.Tokens(), "the list after a restart")
		later := testkit.Got(again.Admit(t.Context(), brief.Token))(t)
		testkit.Check(t, later.UID == first.UID && later.Names == first.Names && later.Ends.Equal(first.Ends), "after a restart the caller is %+v, was %+v", later, first)

		time.Sleep(30*time.Minute - time.Nanosecond)
		testkit.Refused(tokens.Admit(t.Context(), "dibs_"+brief.ID+"_aaaa"))(t, "nobody knows")
		testkit.Got(tokens.Admit(t.Context(), brief.Token))(t)
		time.Sleep(time.Nanosecond)
		_, err := tokens.Admit(t.Context(), brief.Token)
		refused(t, err, api.CodeUnauthorized, "", "expired at 2000-01-01T01:00:00Z", "dibs token new")
		testkit.Check(t, len(tokens.Tokens().Tokens) == 1, "an expired token is listed: %+v", tokens.Tokens())
		_, err = tokens.Revoke(t.Context(), brief.ID)
		_, ok = errors.AsType[*broker.InvalidError](err)
		testkit.Check(t, ok, "the revocation of an expired token says %v", err)
	})
}

func TestRevokedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		tokens := over(t, s)
		kept, gone := issue(t, tokens, api.TokenRequest{Agent: "Oracle"}), issue(t, tokens, api.TokenRequest{Agent: "Sandman"})
		pass, other := testkit.Got(tokens.Admit(t.Context(), gone.Token))(t), testkit.Got(tokens.Admit(t.Context(), kept.Token))(t)

		s.err = errDisk
		testkit.Refused(tokens.Revoke(t.Context(), gone.ID))(t, errDisk.Error())
		testkit.Check(t, !isOver(pass), "a revocation that was not stored ends the token")
		testkit.Got(tokens.Admit(t.Context(), gone.Token))(t)
		s.err = nil

		shown := testkit.Got(tokens.Revoke(t.Context(), gone.ID))(t)
		testkit.Check(t, shown.ID == gone.ID && shown.Agent == "Sandman", "revoked is %+v", shown)
		testkit.Check(t, isOver(pass) && !isOver(other), "over are the revoked one: %v, and another: %v", isOver(pass), isOver(other))
		for name, these := range map[string]*access.Tokens{"at once": tokens, "after a restart": over(t, s)} {
			_, err := these.Admit(t.Context(), gone.Token)
			refused(t, err, api.CodeUnauthorized, "", "nobody knows this access token", "dibs token new")
			testkit.Got(these.Admit(t.Context(), kept.Token))(t)
			list := these.Tokens().Tokens
			testkit.Check(t, len(list) == 1 && list[0].ID == kept.ID, "%s the list is %+v", name, list)
			_, err = these.Revoke(t.Context(), gone.ID)
			_, ok := errors.AsType[*broker.InvalidError](err)
			testkit.Check(t, ok, "%s a second revocation says %v", name, err)
		}
		tokens = over(t, s)
		pass = testkit.Got(tokens.Admit(t.Context(), kept.Token))(t)
		testkit.Got(tokens.Revoke(t.Context(), kept.ID))(t)
		testkit.Check(t, isOver(pass), "a token of before a restart is not over")
	})
}

func TestWhatIsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := over(t, &storage{})
		mine, ok := api.ParseAccessToken(issue(t, tokens, api.TokenRequest{Agent: "Sandman"}).Token)
		testkit.Require(t, ok, "a new token cannot be read")
		changed := func(change func(*api.AccessToken)) string {
			other := mine
			change(&other)
			return other.String()
		}
		for name, c := range map[string]struct{ bearer, says string }{
			"nothing":                     {"", "no access token of dibs"},
			"another's token":             {"ghp_abcdefgh", "no access token of dibs"},
			"a JWT, and no issuers":       {"eyJhbGciOi.eyJpc3MiOi.c2lnbmF0dXJl", "no access token of dibs"},
			"the id alone":                {"dibs_" + mine.ID, "no access token of dibs"},
			"another id":                  {changed(func(o *api.AccessToken) { o.ID = "aaaaaaaaaa" }), "nobody knows"},
			"another secret":              {changed(func(o *api.AccessToken) { o.Secret = "a" + o.Secret[1:] + "a" }), "nobody knows"},
			"the beginning of the secret": {changed(func(o *api.AccessToken) { o.Secret = o.Secret[:len(o.Secret)-1] }), "nobody knows"},
		} {
			_, err := tokens.Admit(t.Context(), c.bearer)
			p := refused(t, err, api.CodeUnauthorized, c.bearer, c.says, "dibs token new")
			testkit.Check(t, !strings.Contains(p.Detail, mine.Secret), "%s: the refusal shows the secret: %s", name, p.Detail)
		}
		i := newIssuer(t, public("ec", ecKey))
		tokens = testkit.Got(access.New(t.Context(), access.Config{Storage: &storage{}, Issuers: i.trusted()}))(t)
		pass := testkit.Got(tokens.Admit(t.Context(), sign(t, "ES256", "ec", ecKey, good())))(t)
		testkit.Check(t, pass.Names == "ci-*", "a JWT is of %+v", pass)
	})
}

// TestLastUse holds that the last use is stored once a minute, and that a token is valid while that
// cannot be stored, or takes long.
func TestLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		tokens := over(t, s)
		token := issue(t, tokens, api.TokenRequest{Agent: "Sandman"})
		s.stored = 0
		for _, c := range []struct {
			after  time.Duration
			stored int
		}{{0, 1}, {0, 1}, {59 * time.Second, 1}, {time.Second, 2}, {59 * time.Second, 2}, {time.Hour, 3}} {
			time.Sleep(c.after)
			testkit.Got(tokens.Admit(t.Context(), token.Token))(t)
			testkit.Check(t, s.stored == c.stored, "after %v more: stored %d times, want %d", c.after, s.stored, c.stored)
		}
		used := time.Now()
		testkit.Check(t, over(t, s).Tokens().Tokens[0].UsedAt.Equal(used), "stored is %s, want the use at %v", s.text, used)
		s.err = errDisk
		time.Sleep(time.Minute)
		testkit.Got(tokens.Admit(t.Context(), token.Token))(t)
		s.err, s.takes = nil, time.Hour
		time.Sleep(time.Minute)
		began := time.Now()
		testkit.Got(tokens.Admit(t.Context(), token.Token))(t)
		testkit.Check(t, time.Since(began) == time.Second, "a caller waited %v for the storage", time.Since(began))
	})
}

func TestTokensThatAreNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storage{}
		tokens := over(t, s)
		invalid := func(tokens *access.Tokens, agent, says string) {
			t.Helper()
			_, err := tokens.NewToken(t.Context(), api.TokenRequest{Agent: agent})
			testkit.Fails(t, err, says)
			_, ok := errors.AsType[*broker.InvalidError](err)
			testkit.Check(t, ok, "%q: the error is %#v", agent, err)
		}
		invalid(tokens, "", "")
		invalid(tokens, "a\nb", "")
		s.err = errDisk
		testkit.Refused(tokens.NewToken(t.Context(), api.TokenRequest{Agent: "Sandman"}))(t, errDisk.Error())
		testkit.Refused(access.New(t.Context(), access.Config{Storage: s}))(t, errDisk.Error())
		s.err = nil
		testkit.Check(t, len(tokens.Tokens().Tokens) == 0 && s.text == "", "there are %+v, and stored %q", tokens.Tokens(), s.text)
		testkit.Refused(access.New(t.Context(), access.Config{Storage: &storage{text: "{"}}))(t, "cannot be read")
		broken := testkit.Got(access.New(t.Context(), access.Config{Storage: s, Fingerprint: func(context.Context) (string, error) { return "", errDisk }}))(t)
		testkit.Refused(broken.NewToken(t.Context(), api.TokenRequest{Agent: "Sandman"}))(t, errDisk.Error())

		// As many as there may be, the first of which expires.
		issue(t, tokens, api.TokenRequest{Agent: "Sandman", ForSeconds: 60})
		brief := strings.Trim(s.text, "[]")
		issue(t, tokens, api.TokenRequest{Agent: "Sandman"})
		_, usual, _ := strings.Cut(strings.Trim(s.text, "[]"), brief+",")
		full := over(t, &storage{text: "[" + brief + strings.Repeat(","+usual, 9999) + "]"})
		invalid(full, "Sandman", "there are 10000 access tokens")
		time.Sleep(time.Minute)
		issue(t, full, api.TokenRequest{Agent: "Sandman"})
		invalid(full, "Sandman", "revoke some")
	})
}
