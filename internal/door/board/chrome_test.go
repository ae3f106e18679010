package board_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/testkit"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// chrome is a tab of a real browser.
type chrome struct {
	t   *testing.T
	ctx context.Context
	// trouble is what the page complained about: errors of scripts, what its policy
	// forbade, and requests for other hosts.
	trouble *lines
}

// lacks leaves a test out where something is not installed; in CI, it fails.
func lacks(t *testing.T, what, how string) {
	t.Helper()
	testkit.Require(t, os.Getenv("CI") == "", "there is no %s, which .ci/run installs: %s", what, how)
	t.Skipf("there is no %s: %s", what, how)
}

// browserPath finds a browser; empty if there is none. The first is chromium without windows of
// its own, which takes less of the processor.
func browserPath() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	return ""
}

// unused is what the browser need not do: a process for each site, pages of its own that each
// window loads into processes of their own, for a line with an address that nobody sees, and a
// process in store for a page to come.
var unused = []string{
	"site-per-process", "Translate", "BlinkGenPropertyTrees", // as chromedp has it
	"WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess",
}

// script is how the browser runs scripts: no page is open for so long that it would gain from what its
// slowest compiler makes of them.
const script = "--no-turbofan"

// browser starts the browser, once for all tests, and closeBrowser ends it.
var (
	browser = sync.OnceValues(func() (context.Context, error) {
		file := browserPath()
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(file), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
			chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("lang", "en-GB"), chromedp.WSURLReadTimeout(time.Minute),
			chromedp.DisableGPU, chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-features", strings.Join(unused, ",")), chromedp.Flag("js-flags", script))
		allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, cancelBrowser := chromedp.NewContext(allocated, chromedp.WithErrorf(discard))
		closeBrowser = func() {
			cancelBrowser()
			cancel()
		}
		return ctx, chromedp.Run(ctx)
	})
	closeBrowser = func() {}
)

// discard is for what chromedp has to say of events that it does not know.
func discard(string, ...any) {}

// needsBrowser leaves a test out where there is none, and has it run beside the others.
func needsBrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: left out with -short")
	}
	if browserPath() == "" {
		lacks(t, "chromium", "apt-get install chromium")
	}
	t.Parallel()
}

// newTab opens a window of its own, with cookies of its own: a page that is behind another
// draws nothing.
func newTab(shared context.Context) (target.ID, error) {
	ctx := cdp.WithExecutor(shared, chromedp.FromContext(shared).Browser)
	own, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(ctx)
	if err != nil {
		return "", err
	}
	return target.CreateTarget("about:blank").WithBrowserContextID(own).WithNewWindow(true).Do(ctx)
}

// newChrome opens a tab that shares nothing with those of other tests.
func newChrome(t *testing.T) *chrome {
	t.Helper()
	shared, err := browser()
	if err != nil {
		t.Fatalf("%s does not start: %v", browserPath(), err)
	}
	tab := testkit.Got(newTab(shared))(t)
	ctx, closeTab := chromedp.NewContext(shared, chromedp.WithTargetID(tab))
	t.Cleanup(closeTab)
	c := &chrome{t: t, ctx: ctx, trouble: new(lines)}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			fmt.Fprintln(c.trouble, "exception:", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				fmt.Fprintln(c.trouble, "console:", fmt.Sprint(e.Args))
			}
		case *page.EventJavascriptDialogOpening:
			fmt.Fprintln(c.trouble, "a dialog of a script:", e.Message)
		}
	})
	c.do(chromedp.ActionFunc(func(ctx context.Context) error {
		// What the policy forbids, and what is asked of others, is noted from the first line on.
		_, err := page.AddScriptToEvaluateOnNewDocument(`
			window.forbidden = [];
			document.addEventListener('securitypolicyviolation', (e) => window.forbidden.push(e.violatedDirective + ' ' + e.blockedURI));`).Do(ctx)
		return err
	}))
	return c
}

// do does something in the tab, within two minutes: the machine may do much else.
func (c *chrome) do(actions ...chromedp.Action) {
	c.t.Helper()
	err := c.try(actions...)
	testkit.Require(c.t, err == nil, "in the browser: %v\n%s", err, c.trouble)
}

// try is do for what may fail.
func (c *chrome) try(actions ...chromedp.Action) error {
	c.t.Helper()
	// The tab itself must not end with the time limit of one action.
	done := make(chan error, 1)
	go func() { done <- chromedp.Run(c.ctx, actions...) }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Minute):
		return errors.New("not done within two minutes")
	}
}

// eval returns what an expression comes to.
func eval[T any](c *chrome, expression string) T {
	c.t.Helper()
	var out T
	c.do(chromedp.Evaluate(expression, &out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return out
}

// until waits, a bounded number of times, for an expression to be true.
func (c *chrome) until(expression string) {
	c.t.Helper()
	var err error
	for range 1200 {
		var is bool
		// A page that goes on to another one meanwhile has no answer.
		if err = c.try(chromedp.Evaluate("Boolean("+expression+")", &is)); is {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("not within a minute: %s (%v)\nthe page says:\n%s\n%s", expression, err, eval[string](c, "document.body.innerText"), c.trouble)
}

// open opens the board by its link.
func (c *chrome) open(m *mesh) {
	c.t.Helper()
	c.do(chromedp.Navigate(m.link))
	c.until(`location.pathname === '/' && document.querySelector('#link')?.textContent === 'live'`)
}

// openTasks opens the board, and goes to its page of tasks.
func (c *chrome) openTasks(m *mesh) {
	c.t.Helper()
	c.open(m)
	c.visit("/tasks")
	c.until(`document.querySelector('#link')?.textContent === 'live'`)
}

// visit goes to another page of the board.
func (c *chrome) visit(path string) {
	c.t.Helper()
	base := eval[string](c, "location.origin")
	c.do(chromedp.Navigate(base + path))
}

// size makes the window that large, in pixels, with a scheme of colours.
func (c *chrome) size(width, height int64, scheme string) {
	c.t.Helper()
	c.do(emulation.SetDeviceMetricsOverride(width, height, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// calm fails the test if the page had anything to complain about.
func (c *chrome) calm() {
	c.t.Helper()
	said := c.trouble.String()
	testkit.Check(c.t, said == "", "the page complained:\n%s", said)
	forbidden := eval[[]string](c, "window.forbidden")
	testkit.Check(c.t, len(forbidden) == 0, "the policy forbade what the page wanted: %s", strings.Join(forbidden, "; "))
	origin := eval[string](c, "location.origin")
	for _, asked := range eval[[]string](c, "performance.getEntriesByType('resource').map((e) => e.name)") {
		testkit.Check(c.t, strings.HasPrefix(asked, origin+"/"), "the page asked for %s", asked)
	}
}

// busy notes the tasks of the page's main thread from now on. The function that it returns
// ends that, and returns how much of the processor each took, in milliseconds: other than
// how long it was, that does not depend on what else the machine does.
func (c *chrome) busy() (done func() []float64) {
	c.t.Helper()
	type entry struct {
		Name     string
		Pid, Tid int
		Thread   float64 `json:"tdur"` // microseconds
	}
	var entries []entry
	complete := make(chan struct{})
	ctx, cancel := context.WithCancel(c.ctx)
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *tracing.EventDataCollected:
			for _, value := range e.Value {
				var one entry
				if json.Unmarshal(value, &one) == nil {
					entries = append(entries, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	})
	c.do(tracing.Start().WithTraceConfig(&tracing.TraceConfig{IncludedCategories: []string{"disabled-by-default-devtools.timeline", "blink.user_timing"}}))
	return func() []float64 {
		c.t.Helper()
		defer cancel()
		// Which thread it is, this tells.
		c.do(chromedp.Evaluate(`performance.mark('the page of the test')`, nil), tracing.End())
		select {
		case <-complete:
		case <-time.After(time.Minute):
			c.t.Fatal("the browser does not hand over what it noted")
		}
		at := slices.IndexFunc(entries, func(e entry) bool { return e.Name == "the page of the test" })
		testkit.Require(c.t, at >= 0, "the page is not among %d entries", len(entries))
		var out []float64
		for _, e := range entries {
			if e.Name == "RunTask" && e.Pid == entries[at].Pid && e.Tid == entries[at].Tid {
				out = append(out, e.Thread/1000)
			}
		}
		slices.Sort(out)
		return out
	}
}

// columnOf is the status of the column in which a card with that title is.
func columnOf(title string) string {
	quoted, _ := json.Marshal(title)
	return fmt.Sprintf(`[...document.querySelectorAll('.card .title')].find((a) => a.textContent === %s)?.closest('.column').dataset.status`, quoted)
}
