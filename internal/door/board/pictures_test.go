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
	"testing"
	"time"

	"dibs/internal/api"
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
	f := new(film)
	c.size(960, 600, "light")
	c.visit("/")
	c.until(`document.documentElement.dataset.link === 'live'`)
	f.shoot(c, 2*time.Second)
	ids := make(map[string]string)
	for _, t := range do(m, api.OpListTasks, api.ListTasksInput{}).Tasks {
		ids[t.Title] = string(t.ID)
	}
	first := m.claim("Sandman", ids["Add retry with backoff to the billing webhook"])
	c.do(chromedp.Sleep(2 * time.Second))
	f.shoot(c, time.Second)
	second := m.claim("Oracle", ids["Rotate the staging certificates"])
	c.do(chromedp.Sleep(2 * time.Second))
	f.shoot(c, time.Second)
	do(m, api.OpRenew, api.On(string(first.ID), "", api.RenewRequest{Progress: "three of five retries have a test"}))
	c.do(chromedp.Sleep(3 * time.Second))
	f.shoot(c, 2*time.Second)
	do(m, api.OpComplete, api.On(string(first.ID), "", api.CompleteRequest{Summary: "Retries five times with backoff; a test for each."}))
	c.do(chromedp.Sleep(3 * time.Second))
	f.shoot(c, 2*time.Second)
	do(m, api.OpAsk, api.On(string(second.ID), "", api.AskRequest{Text: "Two certificates name staging. Is the one that ends on the 30th still in use?"}))
	c.do(chromedp.Sleep(3 * time.Second))
	f.shoot(c, 3*time.Second)
	do(m, api.OpReopen, api.ReopenInput{ID: string(second.Task.ID), Body: &api.ReopenRequest{Note: "No: replace the other one."}})
	m.claim("Oracle", string(second.Task.ID))
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
	m = newMesh(t, "demo", 0) // another day
	c.open(m)
	busy(m)
	for _, shot := range []struct {
		name, path, there string
		width, height     int64
	}{
		{"now", "/", `document.querySelectorAll('.decisions li').length === 2 && document.querySelectorAll('#work li').length === 3`, 1280, 800},
		{"board", "/tasks", columnOf("Document the export API"), 1440, 860},
		{"board-phone", "/tasks?col=IN_PROGRESS", columnOf("Document the export API"), 390, 800},
		{"task", "/tasks", columnOf("Rotate the staging certificates"), 1280, 800},
	} {
		c.size(shot.width, shot.height, "light")
		c.visit(shot.path)
		c.until(`document.documentElement.dataset.link === 'live'`)
		c.until(shot.there)
		if shot.name == "task" {
			c.do(chromedp.Evaluate(`[...document.querySelectorAll('.card .title')].find((a) => a.textContent === 'Rotate the staging certificates').click()`, nil))
			c.until(`document.querySelector('#pane .said:not(:has([data-load]))')`)
		}
		c.take(shot.name)
	}
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

// busy has two agents and a person work on the demo's board for a moment: what they say is of their
// tasks.
func busy(m *mesh) {
	m.t.Helper()
	ids := make(map[string]string)
	for _, t := range do(m, api.OpListTasks, api.ListTasksInput{}).Tasks {
		ids[t.Title] = string(t.ID)
	}
	claim := func(agent, title string) string { return string(m.claim(agent, ids[title]).ID) }
	complete := func(id, summary string) { do(m, api.OpComplete, api.On(id, "", api.CompleteRequest{Summary: summary})) }
	complete(claim("Sandman", "Add retry with backoff to the billing webhook"), "Retries five times with backoff; a test for each.")
	complete(claim("Oracle", "Fix login redirect loop on Safari"), "The callback works without the cookie now; tested from all four entry pages.")
	do(m, api.OpAsk, api.On(claim("Sandman", "Rotate the staging certificates"), "", api.AskRequest{Text: "Two certificates name staging. Is the one that ends on the 30th still in use?"}))
	do(m, api.OpFail, api.On(claim("claude-chat-4M2T", "Replace the deprecated date picker"), "", api.FailRequest{Reason: "The new picker has no week view, which two of the four pages need."}))
	do(m, api.OpRenew, api.On(claim("Sandman", "Document the export API"), "", api.RenewRequest{Progress: "three of five endpoints have an example"}))
	do(m, api.OpRenew, api.On(claim("Oracle", "Write the migration for account time zones"), "", api.RenewRequest{Progress: "go test ./migrations: ok"}))
	m.sync()
}
