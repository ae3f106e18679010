package access

import (
	"context"
	"errors"
)

// Issuers know the JWTs of the issuers that the configuration trusts. They are safe for concurrent use.
type Issuers struct{}

// Verify says who shows a JWT, see Tokens.Admit.
func (i *Issuers) Verify(context.Context, string) (Pass, error) { return Pass{}, errors.New("not yet") }
