package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Secret is a text that no output shows. Convert it to a string to use it.
type Secret string

const redacted = "[redacted]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format keeps the secret out of every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the secret out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// theToken names the token in messages.
const theToken = "the Notion token"

// ReadToken returns the token, from the token file if it is there. It fails if there is none. Load
// does not, because only the daemon needs one.
func (n Notion) ReadToken(log *slog.Logger) (Secret, error) {
	if n.Token != "" {
		if n.TokenOrigin != "" {
			warnIfReadable(n.TokenOrigin, theToken, log)
		}
		return n.Token, nil
	}
	if n.TokenFile == "" {
		return "", errors.New("no Notion token: set NOTION_TOKEN, notion.token or notion.token_file")
	}
	if name := filepath.Base(n.TokenFile); strings.HasPrefix(name, "ntn_") || strings.HasPrefix(name, "secret_") {
		if _, err := os.Stat(n.TokenFile); err != nil {
			return "", errors.New("notion.token_file looks like the token itself: it must be the path of a file with the token")
		}
	}
	token, err := readSecret("notion.token_file", n.TokenFile, theToken, log)
	if strings.ContainsAny(string(token), " \t") {
		return "", fmt.Errorf("notion.token_file: %s holds more than one word: it must hold nothing but the token", n.TokenFile)
	}
	return token, err
}

// readSecret reads a secret from the file named by key. what names the secret in messages.
func readSecret(key, file, what string, log *slog.Logger) (Secret, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	// Editors of Windows begin files with a byte order mark.
	secret := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case !utf8.ValidString(secret) || strings.Contains(secret, "\x00"):
		return "", fmt.Errorf("%s: %s is no text in UTF-8: save it as that", key, file)
	case secret == "":
		return "", fmt.Errorf("%s: %s is empty", key, file)
	case strings.ContainsAny(secret, "\r\n"):
		return "", fmt.Errorf("%s: %s holds more than one line: it must hold nothing but %s", key, file, what)
	}
	warnIfReadable(file, what, log)
	return Secret(secret), nil
}

// warnIfReadable warns of a file with a secret that others may read.
func warnIfReadable(file, what string, log *slog.Logger) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users of this machine may be able to read a secret: run chmod 600",
			"secret", what, "file", file, "mode", fmt.Sprintf("%#o", info.Mode().Perm()))
	}
}
