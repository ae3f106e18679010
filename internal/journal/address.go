package journal

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// anAddress is an example of one.
const anAddress = "postgres://dibs@db.example.com/dibs?sslmode=verify-full"

// sslModes are the values of sslmode.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

var (
	foreignScheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.]*:`)
	sslMode       = regexp.MustCompile(`(?:^|[?&\s])sslmode\s*=\s*'?([^&\s']*)`)
	badCode       = regexp.MustCompile(`%(?:[^0-9a-fA-F]|.[^0-9a-fA-F]|.?$)`)
)

// misread returns an error for an address that libpq refuses, or reads otherwise than it is meant:
// its password has a character that ends it. It shows nothing of the address.
func misread(address string) error {
	scheme := foreignScheme.FindString(address)
	rest, isURL := strings.CutPrefix(strings.TrimPrefix(address, scheme), "//")
	switch {
	case strings.EqualFold(scheme, "jdbc:"):
		return errors.New("it begins with jdbc:, which is for Java: write " + anAddress)
	case scheme != "" && isURL && scheme != "postgres:" && scheme != "postgresql:":
		return errors.New("it does not begin with postgres://: write " + anAddress)
	case isURL && strings.Contains(rest, "#"):
		return errors.New("it has a #, which ends an address: in a password write %23")
	case isURL && early(rest):
		return errors.New("its password has a character that ends it: write %2F for /, %3F for ?, %40 for @")
	case isURL && badCode.MatchString(rest):
		return errors.New("it has a % that begins no code of two digits: in a password write %25")
	}
	if mode := sslMode.FindStringSubmatch(address); mode != nil && !slices.Contains(sslModes, mode[1]) {
		return errors.New("its sslmode is none of " + strings.Join(sslModes, ", "))
	}
	return nil
}

// early reports whether a / or ? comes before the @ that ends user and password.
func early(rest string) bool {
	end := strings.IndexAny(rest, "/?")
	if end < 0 || strings.Contains(rest[:end], "@") || !strings.Contains(rest[:end], ":") {
		return false
	}
	after := rest[end+1:]
	if rest[end] == '/' {
		after, _, _ = strings.Cut(after, "?")
	} else if _, err := url.Parse("//" + rest[:end]); err == nil {
		return false // a host with a port
	}
	return strings.Contains(after, "@")
}
