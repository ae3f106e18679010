package api

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// BearerHeader is the header of requests from other machines that holds the access token, after
// "Bearer ".
const BearerHeader = "Authorization"

// AccessToken is a secret bound to names: what an agent on another machine shows in place of a user
// id. In text it is dibs_ID_SECRET, and dibs_ID_SECRET_FINGERPRINT with a self-made certificate.
type AccessToken struct {
	ID, Secret string
	// Fingerprint is the SHA-256 of the daemon's certificate, in lower-case hexadecimal digits; empty
	// where the certificate is one that everybody can verify. It is no secret.
	Fingerprint string
}

// TokenPrefix begins every access token of dibs, whole or not.
const TokenPrefix = "dibs_"

var (
	tokenForm       = regexp.MustCompile(`^` + TokenPrefix + `([a-z2-7]+)_([a-z2-7]+)(?:_([0-9a-f]{64}))?$`)
	fingerprintForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// NewAccessToken returns a new token for the certificate of that fingerprint.
func NewAccessToken(fingerprint string) AccessToken {
	return AccessToken{strings.ToLower(rand.Text()[:10]), strings.ToLower(rand.Text()), fingerprint}
}

// ParseAccessToken reads a token; ok is false if text is none, such as a JWT.
func ParseAccessToken(text string) (t AccessToken, ok bool) {
	parts := tokenForm.FindStringSubmatch(text)
	if parts == nil {
		return AccessToken{}, false
	}
	return AccessToken{parts[1], parts[2], parts[3]}, true
}

// String returns the token as it is given to an agent. It must not get into a log.
func (t AccessToken) String() string {
	text := TokenPrefix + t.ID + "_" + t.Secret
	if t.Fingerprint != "" {
		text += "_" + t.Fingerprint
	}
	return text
}

// ParseFingerprint reads a certificate's fingerprint, also with colons and in capitals, as openssl
// prints it.
func ParseFingerprint(text string) (string, error) {
	plain := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), ":", ""))
	if !fingerprintForm.MatchString(plain) {
		return "", fmt.Errorf("%.80q is no fingerprint: want the SHA-256 of the daemon's certificate, 64 hexadecimal digits", text)
	}
	return plain, nil
}

// The least and the longest life of an access token, and how long it lives if nobody says.
const (
	ShortestToken = time.Minute
	LongestToken  = 366 * 24 * time.Hour
	UsualToken    = 30 * 24 * time.Hour
)

// TokenRequest asks for an access token.
type TokenRequest struct {
	Agent      string  `json:"agent" minLength:"1" doc:"The name that it may act under, or a pattern of names, in which a * stands for any letters"`
	ForSeconds float64 `json:"for_seconds,omitempty" minimum:"60" maximum:"31622400" doc:"How long it is valid; 30 days without it"`
	Note       string  `json:"note,omitempty" maxLength:"200" doc:"What it is for, to tell it from others"`
}

// NewToken is a token, the only time that it is shown.
type NewToken struct {
	ID        string `json:"id"`
	Token     string `json:"token" doc:"The secret: it is shown this once"`
	Agent     string `json:"agent"`
	ExpiresAt Time   `json:"expires_at"`
}

// Token is an access token without its secret.
type Token struct {
	ID        string `json:"id"`
	Agent     string `json:"agent" doc:"The name that it may act under, or a pattern of names"`
	Note      string `json:"note"`
	MadeAt    Time   `json:"made_at"`
	ExpiresAt Time   `json:"expires_at"`
	UsedAt    *Time  `json:"used_at" doc:"When it was last used, to the minute; null if it never was"`
}

// Tokens are the access tokens that have not expired, the oldest first.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// TokenInput names an access token.
type TokenInput struct {
	ID string `path:"id" doc:"The token's id"`
}

// Access is what the caller's access token, or JWT, allows.
type Access struct {
	ID        string `json:"id" doc:"The token's id; of a JWT its issuer and subject"`
	Agent     string `json:"agent" doc:"The name that it may act under, or a pattern of names"`
	ExpiresAt Time   `json:"expires_at"`
}
