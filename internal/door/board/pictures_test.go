package board_test

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// maxFilm is how large the film may be, in bytes.
const maxFilm = 1_500_000

// film is a film of pages, frame by frame.
type film struct {
	frames []image.Image
	delays []int // in hundredths of a second
}

// shoot adds what the page shows, for as long as a viewer needs.
func (f *film) shoot(c *chrome, look time.Duration) {
	c.t.Helper()
	var picture []byte
	c.do(chromedp.Sleep(400*time.Millisecond), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	frame := testkit.Got(png.Decode(bytes.NewReader(picture)))(c.t)
	f.frames, f.delays = append(f.frames, frame), append(f.delays, int(look/(10*time.Millisecond)))
}

// write writes the film in the colours that it uses most. Of each frame it keeps what has changed.
func (f *film) write(c *chrome, name string) {
	c.t.Helper()
	count, area := make(map[color.Color]int), f.frames[0].Bounds()
	at := func(i, x, y int) color.Color {
		r, g, b, _ := f.frames[i].At(x, y).RGBA()
		return color.RGBA{uint8(r>>8) &^ 3, uint8(g>>8) &^ 3, uint8(b>>8) &^ 3, 255}
	}
	all := func(do func(x, y int)) {
		for y := range area.Dy() {
			for x := range area.Dx() {
				do(x, y)
			}
		}
	}
	for i := range f.frames {
		all(func(x, y int) { count[at(i, x, y)]++ })
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	palette := append(color.Palette{color.RGBA{}}, colours[:min(len(colours), 255)]...) // the first: nothing has changed
	out := &gif.GIF{Delay: f.delays, Config: image.Config{ColorModel: palette, Width: area.Dx(), Height: area.Dy()}}
	for i := range f.frames {
		p := image.NewPaletted(area, palette)
		all(func(x, y int) {
			if i == 0 || at(i, x, y) != at(i-1, x, y) {
				p.Set(x, y, at(i, x, y))
			}
		})
		out.Image, out.Disposal = append(out.Image, p), append(out.Disposal, gif.DisposalNone)
	}
	var file bytes.Buffer
	testkit.Must(c.t, gif.EncodeAll(&file, out))
	testkit.Check(c.t, file.Len() <= maxFilm, "the film %s has %d bytes, at most %d are wanted", name, file.Len(), maxFilm)
	testkit.Must(c.t, os.WriteFile(filepath.Join(*shots, name+".gif"), file.Bytes(), 0o644))
}

// shootDay films how two agents and a person work.
func shootDay(m *mesh, c *chrome) {
	ctx, f := m.t.Context(), new(film)
	c.size(960, 600, "light")
	c.visit("/")
	c.until(`document.documentElement.dataset.link === 'live'`)
	f.shoot(c, 2*time.Second)
	first := m.claim("Sandman", "")
	c.do(chromedp.Sleep(2 * time.Second))
	f.shoot(c, time.Second)
	second := m.claim("Oracle", "")
	c.do(chromedp.Sleep(2 * time.Second))
	f.shoot(c, time.Second)
	client.Do(ctx, m.client, api.OpRenew, api.On(string(first.ID), "", api.RenewRequest{Progress: "two of four pages"}))
	c.do(chromedp.Sleep(3 * time.Second))
	f.shoot(c, 2*time.Second)
	client.Do(ctx, m.client, api.OpComplete, api.On(string(first.ID), "", api.CompleteRequest{Summary: "Fixed, with a test."}))
	c.do(chromedp.Sleep(3 * time.Second))
	f.shoot(c, 2*time.Second)
	client.Do(ctx, m.client, api.OpAsk, api.On(string(second.ID), "", api.AskRequest{Text: "Which of the two webhooks is meant?"}))
	c.do(chromedp.Sleep(3 * time.Second))
	f.shoot(c, 3*time.Second)
	client.Do(ctx, m.client, api.OpReopen, api.ReopenInput{ID: string(second.Task.ID), Body: &api.ReopenRequest{Note: "The second."}})
	m.claim("Sandman", string(second.Task.ID))
	c.do(chromedp.Sleep(4 * time.Second))
	f.shoot(c, 2*time.Second)
	c.visit("/tasks")
	c.until(`document.querySelectorAll('.card').length > 5`)
	f.shoot(c, 3*time.Second)
	c.visit("/activity?range=10m")
	c.until(`document.querySelector('main svg')`)
	f.shoot(c, 3*time.Second)
	f.write(c, "day")
}

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
			c.until(`document.documentElement.dataset.link === 'live'`)
			c.take(shot.name)
			continue
		}
		c.visit("/tasks")
		c.until(`document.documentElement.dataset.link === 'live'`)
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
	testkit.Check(c.t, len(picture) <= maxShot, "the picture %s has %d bytes, at most %d are wanted", name, len(picture), maxShot)
	testkit.Must(c.t, os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o644))
}

// busy has agents and people work on the demo's board for a moment.
func busy(m *mesh) {
	m.t.Helper()
	ctx := m.t.Context()
	for i, agent := range []string{"Sandman", "Oracle", "Sandman", "claude-chat-4M2T", "Oracle", "Sandman"} {
		c := m.claim(agent, "")
		switch i {
		case 0:
			client.Do(ctx, m.client, api.OpClaim, api.Keyed("", api.ClaimRequest{Agent: "Oracle", Task: string(c.Task.ID)}))
			client.Do(ctx, m.client, api.OpComplete, api.On(string(c.ID), "", api.CompleteRequest{Summary: "Retries five times, with a test for each."}))
		case 1:
			client.Do(ctx, m.client, api.OpComplete, api.On(string(c.ID), "", api.CompleteRequest{Summary: "Safari follows the redirect now."}))
		case 2:
			client.Do(ctx, m.client, api.OpBlock, api.On(string(c.ID), "", api.BlockRequest{Reason: "Which of the two certificates is the staging one?"}))
		}
	}
	m.sync()
}
