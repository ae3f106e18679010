package emulator_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/mirror/webhook"
	"dibs/internal/testkit"
)

// signed is a body with a signature of the X-Notion-Signature header.
type signed struct {
	Body      []byte `json:"body"`
	Signature string `json:"signature"`
}

// TestSignatures has Notion's own SDK check the emulator's signatures, and the daemon's check those
// of the SDK: both take the same ones. .ci/mcp installs the SDK in the folder named by TEST_CLIENTS.
func TestSignatures(t *testing.T) {
	testkit.TakesSeconds(t)
	dir := os.Getenv("TEST_CLIENTS")
	switch {
	case dir == "" && os.Getenv("CI") == "true":
		t.Fatal("TEST_CLIENTS is not set: export TEST_CLIENTS=$(.ci/mcp)")
	case dir == "":
		t.Skip("Notion's SDK is not there: export TEST_CLIENTS=$(.ci/mcp)")
	}
	var token string
	var asks []signed
	synctest.Test(t, func(t *testing.T) {
		a, dbs, h := hooked(t)
		check(t, a.e.EditSchema(dbs.Tasks, object{"Größe <\u2028>": object{"number": object{}}})) // its name is sent
		a.row(dbs.Tasks, nil)
		check(t, a.e.AddComment(a.e.Pages(dbs.Tasks)[0].ID, maria, "Ah"))
		time.Sleep(time.Minute)
		synctest.Wait()
		token = h.tokens[0]
		for _, e := range h.got {
			asks = append(asks, signed{e.raw, e.signature})
		}
	})
	sent := len(asks)
	body, signature := asks[0].Body, asks[0].Signature
	digits := strings.TrimPrefix(signature, "sha256=")
	more := bytes.Clone(body)
	more[0] = '['
	for _, s := range []string{
		"sha256=" + strings.ToUpper(digits), // the SDK takes it
		"", "sha256=", digits, "SHA256=" + digits, "sha1=" + digits, "sha256=" + digits[1:], signature + "0", " " + signature, signature + "\n",
		"sha256=" + strings.Repeat("0", 64), "sha256=" + digits[:63] + "g", "sha256=" + digits[:63] + "ı", "sha256=" + digits[1:] + digits[:1],
	} {
		asks = append(asks, signed{body, s})
	}
	asks = append(asks, signed{append(bytes.Clone(body), '\n'), signature}, signed{body[1:], signature}, signed{more, signature}, signed{nil, signature})

	bodies := [][]byte{body, {}, []byte("x"), []byte(`{"name": "Größe"}`), {0xff, 0xfe, 0}}
	ask, err := json.Marshal(map[string]any{"token": token, "signed": asks, "bodies": bodies})
	check(t, err)
	modules := filepath.Join(dir, "node_modules")
	cmd := exec.Command(filepath.Join(modules, "node", "bin", "node"), filepath.Join("testdata", "signatures.mjs"), modules+string(filepath.Separator))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(ask), t.Output()
	out, err := cmd.Output()
	check(t, err)
	var sdk struct {
		Taken      []bool
		Signatures []string
	}
	check(t, json.Unmarshal(out, &sdk))
	if sent < 4 || len(sdk.Taken) != len(asks) || len(sdk.Signatures) != len(bodies) {
		t.Fatalf("%d events; asked of %d and %d, and answered %s", sent, len(asks), len(bodies), out)
	}
	for i, ask := range asks {
		if i <= sent != sdk.Taken[i] {
			t.Errorf("the SDK takes %q of %q: %v", ask.Signature, ask.Body, sdk.Taken[i])
		}
		if ours := webhook.Verify(token, ask.Body, ask.Signature); ours != sdk.Taken[i] {
			t.Errorf("%q of %q is %v for the daemon, %v for the SDK", ask.Signature, ask.Body, ours, sdk.Taken[i])
		}
	}
	for i, body := range bodies {
		if !webhook.Verify(token, body, sdk.Signatures[i]) || webhook.Verify(token+"x", body, sdk.Signatures[i]) {
			t.Errorf("the SDK's signature %q of %q is not the one the daemon takes", sdk.Signatures[i], body)
		}
	}
}
