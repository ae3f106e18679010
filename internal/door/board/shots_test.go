package board_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/api"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "put the pictures of the documentation into this folder")

// maxShot is how large a picture may be, in bytes.
const maxShot = 230_000

// TestShots takes the pictures of the documentation.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("takes pictures: .ci/task shots does it")
	}
	needsBrowser(t)
	m := newMesh(t, "demo", 0)
	c := newChrome(t)
	c.openTasks(m)
	shootDay(m, c)
	busy(m)
	for _, shot := range []struct {
		name, scheme  string
		width, height int64
	}{
		{"now", "light", 1440, 860},
		{"board", "light", 1440, 860},
		{"board-phone", "light", 390, 800},
	} {
		c.size(shot.width, shot.height, shot.scheme)
		if strings.HasPrefix(shot.name, "now") {
			c.visit("/")
			c.until(`document.querySelector('#link')?.textContent === 'live'`)
			c.take(shot.name)
			continue
		}
		c.visit("/tasks")
		c.until(`document.querySelector('#link')?.textContent === 'live'`)
		c.until(columnOf("Document the export API"))
		c.take(shot.name)
	}
	c.size(1280, 800, "light")
	c.visit("/tasks")
	c.until(columnOf("Fix login redirect loop on Safari"))
	c.do(chromedp.Evaluate(`[...document.querySelectorAll('.card .title')].find((a) => a.textContent === 'Fix login redirect loop on Safari').click()`, nil))
	c.until(`document.querySelector('#pane:not([hidden]) .said:not([data-load])')`)
	c.take("task")
}

// take puts a picture of the page into the folder.
func (c *chrome) take(name string) {
	c.t.Helper()
	var picture []byte
	c.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithOptimizeForSpeed(false).Do(ctx)
		return err
	}))
	if len(picture) > maxShot {
		c.t.Errorf("the picture %s has %d bytes, at most %d are wanted", name, len(picture), maxShot)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// busy has agents and people work on the demo's board for a moment.
func busy(m *mesh) {
	m.t.Helper()
	ctx := m.t.Context()
	for i, agent := range []string{"Sandman", "Oracle", "Sandman", "claude-chat-4M2T", "Oracle", "Sandman"} {
		c := m.claim(agent, "")
		switch i {
		case 0:
			m.client.Claim(ctx, api.ClaimRequest{Agent: "Oracle", Task: string(c.Task.ID)}, "")
			m.client.Complete(ctx, string(c.ID), api.CompleteRequest{Summary: "Retries five times, with a test for each."}, "")
		case 1:
			m.client.Complete(ctx, string(c.ID), api.CompleteRequest{Summary: "Safari follows the redirect now."}, "")
		case 2:
			m.client.Block(ctx, string(c.ID), api.BlockRequest{Reason: "Which of the two certificates is the staging one?"}, "")
		}
	}
	if _, err := m.client.Sync(ctx, api.SyncRequest{}, ""); err != nil {
		m.t.Fatal(err)
	}
}
