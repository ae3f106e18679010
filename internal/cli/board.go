package cli

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"syscall"
	"time"

	"dibs/internal/door/board"
	"dibs/internal/kit/safefile"

	"github.com/spf13/cobra"
)

// boarding is the output of `board --json`.
type boarding struct {
	URL string `json:"url"`
}

func (a *app) boardCommand() *cobra.Command {
	var o boardOptions
	cmd := &cobra.Command{
		Use:   "board",
		Short: "Show the mesh in the browser, live",
		Long: "Serve a page that shows who works on what, until when, what waits and why, what just happened and\n" +
			"how it goes, until it is stopped. It asks the daemon on its socket, like any other command, and\n" +
			"nobody else. The link that it prints opens the page once, in one browser; whenever it was used, the\n" +
			"next one is printed. People may release, block, cancel, reopen, hand on and add tasks there.",
		Example: "  dibs board --open\n  dibs board --listen 127.0.0.1:8090 --read-only",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runBoard(cmd, o) },
	}
	o.add(cmd)
	return cmd
}

type boardOptions struct {
	listen   string
	remote   bool
	hosts    []string
	open     bool
	readOnly bool
	as       string
}

func (o *boardOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "the `address` to serve on; port 0 is any free one")
	cmd.Flags().BoolVar(&o.remote, "remote", false, "allow an address that other machines can reach")
	cmd.Flags().StringSliceVar(&o.hosts, "host", nil, "a `name` that requests may be for, beside localhost and addresses")
	cmd.Flags().BoolVar(&o.open, "open", false, "open it in the browser")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "only show, change nothing")
	cmd.Flags().StringVar(&o.as, "as", "", "the `name` in which things are done there (default: that of your account)")
}

func (a *app) runBoard(cmd *cobra.Command, o boardOptions) error {
	daemon, err := a.direct()
	if err != nil {
		return err
	}
	if o.as == "" {
		o.as = userName()
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return cannotListen(o.listen, err)
	}
	at := l.Addr().(*net.TCPAddr)
	if !at.IP.IsLoopback() && !o.remote {
		l.Close()
		return usagef("--listen %s: other machines could reach the board there, over a connection that is not encrypted: give --remote if that is meant, or reach 127.0.0.1 with ssh -L", o.listen)
	}
	return a.serveBoard(cmd.Context(), l, o.open, board.Options{
		Daemon: daemon, User: o.as, ReadOnly: o.readOnly, Hosts: o.hosts,
		Log: slog.New(slog.NewTextHandler(a.stderr, nil)),
	})
}

// cannotListen returns the error of a listener: a usage error if the address is invalid or unknown.
func cannotListen(listen string, err error) error {
	_, malformed := errors.AsType[*net.AddrError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	if malformed || unknown {
		return usagef("--listen %s: %w: give an address of this machine with a port, such as 127.0.0.1:8090, or leave --listen out", listen, err)
	}
	return fmt.Errorf("--listen %s: %w: give another port, or 0 for any free one", listen, err)
}

// userName returns the name of the user who runs the program.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Getuid())
}

// serveBoard serves a board until ctx ends.
func (a *app) serveBoard(ctx context.Context, l net.Listener, open bool, o board.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	base := "http://" + reachable(l.Addr().(*net.TCPAddr))
	b := board.New(o)
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, l) }()

	first := b.Link(base)
	err := a.print(boarding{first}, func(w io.Writer) {
		fmt.Fprintf(w, "The board, until Ctrl-C. This link opens it once, in one browser:\n\n  %s\n\n", first)
	})
	if err != nil {
		cancel()
		return errors.Join(err, <-served)
	}
	opened := make(chan error, 1)
	if open {
		browsing, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			opened <- browse(browsing, first, a.environment())
		}()
		defer func() {
			stop()
			<-ended
		}()
	}
	for {
		select {
		case err := <-opened:
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(a.stderr, "the browser could not be opened: %v: open the link yourself\n", err)
			}
		case <-b.Entered():
			fmt.Fprintf(a.stderr, "The link was used. For another browser: %s\n", b.Link(base))
		case err := <-served:
			return err
		}
	}
}

// reachable returns the address at which a browser on this machine reaches the listener.
func reachable(at *net.TCPAddr) string {
	if !at.IP.IsUnspecified() {
		return at.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(at.Port))
}

// browse opens a link in the browser and returns when ctx ends, or the error before that. It then
// ends a program that stayed in the foreground. Other users of the machine can see the arguments of
// programs, so the argument is a file that only this user can read; the file redirects to the link.
func browse(ctx context.Context, link string, environment []string) error {
	const prefix, suffix = "dibs-board-", ".html"
	safefile.RemoveAbandoned(prefix, suffix)
	page, err := safefile.Scratch(prefix, suffix)
	if err != nil {
		return err
	}
	defer page.Close()
	defer os.Remove(page.Name())
	if _, err = fmt.Fprintf(page, `<!doctype html><meta charset="utf-8"><title>dibs</title><meta http-equiv="refresh" content="0; url=%s"><a href="%[1]s">To the board</a>`, html.EscapeString(link)); err != nil {
		return err
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	cmd := exec.CommandContext(ctx, opener, page.Name())
	cmd.Env = environment
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = openerPatience
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", opener, err)
	}
	<-ctx.Done() // the browser may read the page later
	return nil
}

// openerPatience is how long the program that opened the browser may take to end.
const openerPatience = 2 * time.Second
