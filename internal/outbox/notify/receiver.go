package notify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dibs/config"
	"dibs/internal/claim"
	"dibs/internal/outbox"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

const (
	// gathers is how long notices wait for others that go into the same message.
	gathers = time.Minute
	// keeps is how long a notice is tried.
	keeps = 24 * time.Hour
	// patience is how long a receiver may take for one message.
	patience = 10 * time.Second
	// longestPause is the longest pause that a receiver may ask for.
	longestPause = time.Hour
)

// Options are what receivers need from the process.
type Options struct {
	// Transport carries the messages; nil means the network.
	Transport http.RoundTripper
	// Output gets what commands print, and Environment is theirs.
	Output      io.Writer
	Environment []string
	Log         *slog.Logger
}

// Receiver delivers notices to one address or command. It implements outbox.Entries, and is safe for
// concurrent use.
type Receiver struct {
	config  config.Receiver
	options Options
	name    string
	address *url.URL // nil for a command
	client  http.Client
}

// Open returns the receivers. It reads the files with their addresses.
func Open(all []config.Receiver, o Options) ([]*Receiver, error) {
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableKeepAlives = true // a message a minute at most
		o.Transport = t
	}
	var out []*Receiver
	names := make(map[string]int)
	for _, c := range all {
		r := &Receiver{config: c, options: o}
		r.client = http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		var err error
		if r.address, err = c.Address(o.Log); err != nil {
			return nil, err
		}
		form := config.FormText
		if r.address == nil {
			r.name = "command " + program(c.Command)
		} else {
			r.name = r.address.Scheme + "://" + r.address.Host
			if slices.Contains(slacks, r.address.Hostname()) {
				form = config.FormSlack
			}
		}
		if names[r.name]++; names[r.name] > 1 {
			r.name += fmt.Sprintf(" (%d)", names[r.name])
		}
		r.config.Form = cmp.Or(c.Form, form)
		out = append(out, r)
	}
	return out, nil
}

// slacks are the hosts of Slack's incoming webhooks.
var slacks = []string{"hooks.slack.com", "hooks.slack-gov.com"}

// program returns the first word of a command that sets no variable.
func program(command string) string {
	for _, word := range strings.Fields(command) {
		if !strings.Contains(word, "=") {
			return filepath.Base(word)
		}
	}
	return "sh"
}

// String names the receiver for people, without secrets.
func (r *Receiver) String() string { return r.name }

// Kind returns the kind of the receiver's intents. It depends on where the notices go alone.
func (r *Receiver) Kind() outbox.Kind {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(r.config.URL), r.config.URLFile, r.config.Command}, "\x00")))
	return outbox.Kind(fmt.Sprintf("%s%x", outbox.Notices, sum[:12]))
}

// Terms returns how a queue delivers to the receiver.
func (r *Receiver) Terms() *outbox.Receiver {
	return &outbox.Receiver{Name: r.name, Gather: gathers, Keep: keeps}
}

// Wants reports whether the receiver is told of a fact.
func (r *Receiver) Wants(f claim.Fact) bool { return slices.ContainsFunc(Of(f), r.on) }

func (r *Receiver) on(kind config.Notice) bool {
	return len(r.config.On) == 0 || slices.Contains(r.config.On, kind)
}

// Name implements outbox.Entries.
func (r *Receiver) Name(in outbox.Intent) (id, title string) { return in.ID, r.of(in).Text }

// Find implements outbox.Effect: receivers cannot be asked what has arrived.
func (r *Receiver) Find(context.Context, outbox.Intent) ([]string, error) { return nil, nil }

// Send implements outbox.Effect. The errors say that nothing landed, even where that is not known.
func (r *Receiver) Send(ctx context.Context, in outbox.Intent) (ref string, err error) {
	var m message
	for _, one := range in.All() {
		m = append(m, r.of(one))
	}
	return "", r.send(ctx, m)
}

// Test sends a notice that says that it is a test.
func (r *Receiver) Test(ctx context.Context) error {
	now := time.Now()
	return r.send(ctx, message{{ID: claim.NewFactID(now), Event: "test", At: now, Text: "This is a test by dibs. Notices for people will look like this."}})
}

// send delivers a message. Its errors do not have the address.
func (r *Receiver) send(ctx context.Context, m message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	do := r.post
	if r.address == nil {
		do = r.run
	}
	err := do(ctx, m)
	if failed, ok := errors.AsType[*claim.StoreError](err); ok {
		return failed
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return claim.Errorf(claim.Unavailable, claim.LandedNo, "%w", err)
	}
	return nil
}

func (r *Receiver) post(ctx context.Context, m message) error {
	body, header := m.body(r.config.Form)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address.String(), strings.NewReader(body))
	if err != nil {
		return errors.New("its address is not one to POST to")
	}
	req.Header = header
	answer, err := r.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the address
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 3:
		return errors.New("it answered with a redirection, which is not followed: set the address that it leads to")
	default:
		// Not the text of the answer, which may repeat the address.
		failed := claim.Errorf(claim.Refused, claim.LandedNo, "it answered %d %s", code, http.StatusText(code))
		failed.RetryAfter = pause(answer.Header.Get("Retry-After"))
		return failed
	}
}

// pause reads a Retry-After.
func pause(value string) time.Duration {
	seconds, err := strconv.ParseFloat(value, 64)
	if until, derr := http.ParseTime(value); derr == nil {
		seconds, err = time.Until(until).Seconds(), nil
	}
	if err != nil || !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, longestPause.Seconds()) * float64(time.Second))
}

// run runs the command, with the text on its standard input. It ends with all that it started once
// its time is over.
func (r *Receiver) run(ctx context.Context, m message) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", r.config.Command)
	cmd.Env = append(slices.Clone(r.options.Environment), m.variables()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(m.text()+"\n"), r.options.Output, r.options.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// of returns the notice of an intent.
func (r *Receiver) of(in outbox.Intent) Notice {
	f := in.Fact
	title := task.OneLine(f.Title, -1)
	kinds := slices.DeleteFunc(Of(f), func(k config.Notice) bool { return !r.on(k) })
	n := Notice{ID: f.ID, At: f.At, Agent: f.Agent, Task: f.Task, Title: cut(title), URL: link(f.URL), Text: cut(wording.Notice(f))}
	if len(kinds) > 0 {
		n.Event = kinds[0]
	}
	return n
}
