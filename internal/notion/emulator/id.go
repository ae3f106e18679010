package emulator

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
)

// newID mints a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return dashed(hex.EncodeToString(b[:]))
}

// nilID is the one UUID without a variant that Notion accepts.
const nilID = "00000000-0000-0000-0000-000000000000"

// parseID accepts a UUID with or without dashes and returns its canonical form. The variant must be
// that of RFC 9562: 8, 9, a or b.
func parseID(s string) (string, bool) {
	digits := strings.ToLower(s)
	if len(digits) == 36 && digits[8] == '-' && digits[13] == '-' && digits[18] == '-' && digits[23] == '-' {
		digits = strings.ReplaceAll(digits, "-", "")
	}
	if len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	id := dashed(digits)
	return id, strings.Contains("89ab", digits[16:17]) || id == nilID
}

func dashed(digits string) string {
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}

// undashed returns an id in the form of URLs.
func undashed(id string) string { return strings.ReplaceAll(id, "-", "") }

// propertyIDAlphabet has characters that clients must not escape twice, like Notion's ids. '%' and
// '/' are left out, so that every way of escaping an id gives the same one back.
const propertyIDAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:;?@=`{|}[]<>^~_\\"

// newPropertyID mints an unused id of four characters, in the escaped form that Notion shows, such
// as "%3Dzw%7C".
func (s *source) newPropertyID() string {
	for {
		var b strings.Builder
		for range 4 {
			b.WriteByte(propertyIDAlphabet[randomBelow(len(propertyIDAlphabet))])
		}
		id := url.QueryEscape(b.String())
		if _, taken := s.property(id); !taken {
			return id
		}
	}
}

// newToken mints a token in the form of Notion's integrations.
func newToken() string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var b strings.Builder
	b.WriteString("ntn_")
	for range 46 {
		b.WriteByte(alphabet[randomBelow(len(alphabet))])
	}
	return b.String()
}

func randomBelow(n int) int {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err) // crypto/rand.Reader never fails
	}
	return int(i.Int64())
}

// sortedKeys returns an object's keys in a fixed order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
