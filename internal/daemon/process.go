package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"dibs/config"
	"dibs/internal/api"
	"dibs/internal/broker"
	"dibs/internal/claim/brake"
	"dibs/internal/cluster"
	"dibs/internal/door/access"
	"dibs/internal/door/server"
	"dibs/internal/kit/silence"
)

// Options configures a daemon.
type Options struct {
	Config  config.Config
	Version string
	// Transport carries the requests to Notion; nil means the network.
	Transport http.RoundTripper
	// Outside carries notices to their receivers; nil means the network.
	Outside http.RoundTripper
	// Listener accepts agents' connections; nil means the configured socket.
	Listener net.Listener
	// Webhooks accepts what Notion posts; nil means webhook.listen, if set.
	Webhooks net.Listener
	// Remote accepts agents on other machines; nil means remote.listen, if set.
	Remote net.Listener
	// Network connects the members of a cluster; nil means the machine's network.
	Network cluster.Network
	Log     *slog.Logger
	// LogLevel, if set, is the level of Log. A reload changes it.
	LogLevel *slog.LevelVar
}

// process is what a daemon has for as long as it runs, whether it leads or stands by.
type process struct {
	version   string
	started   time.Time
	log       *slog.Logger
	logLevel  *slog.LevelVar
	transport http.RoundTripper // to Notion
	outside   http.RoundTripper // to receivers of notices
	cleanup   cleanup

	listen net.Listener // for agents
	// hookListen is for webhooks; nil without webhook.listen.
	hookListen net.Listener
	hooksIn    *server.Webhooks // accepts on it, once this daemon runs

	// remoteListen is for agents on other machines; nil without remote.listen.
	remoteListen net.Listener

	live      atomic.Pointer[config.Config] // the configuration; a reload changes it
	reloading chan struct{}                 // a mutex for jobs and for a reload, which may send requests
}

// cleanup is a stack of functions to run at the end, in reverse order.
type cleanup []func() error

func (c *cleanup) run() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}

// closeOnce closes a listener that may be closed already.
func closeOnce(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// openToOthers reports whether users other than its owner can open a socket. They need write
// permission, which is set by whoever made the socket, systemd for instance.
func openToOthers(addr net.Addr) bool {
	path := addr.String()
	if strings.HasPrefix(path, "@") {
		return true // an abstract socket has no mode
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o022 != 0
}

// listenForHooks listens for webhooks, unless that is off.
func (p *process) listenForHooks(ctx context.Context, o Options) (err error) {
	p.hookListen = o.Webhooks
	if address := o.Config.Webhook.Listen; p.hookListen == nil && address != "" {
		var network net.ListenConfig
		if p.hookListen, err = network.Listen(ctx, "tcp", address); err != nil {
			return fmt.Errorf("webhook.listen: %w: set another address, or none", err)
		}
	}
	if p.hookListen == nil {
		return nil
	}
	p.cleanup = append(p.cleanup, func() error { return closeOnce(p.hookListen) })
	p.log.Info("listening for Notion's webhooks", "url", p.hookURL())
	return nil
}

// hookURL returns the URL at which webhooks are listened for; empty if they are not.
func (p *process) hookURL() string {
	if p.hookListen == nil {
		return ""
	}
	return "http://" + p.hookListen.Addr().String() + p.live.Load().Webhook.Path
}

// silent is how long the machine of an agent may be silent before its connection counts as broken. Only
// then begins the time for which the claim of dibs run waits for another one.
const silent = 20 * time.Second

// listenForRemote listens for agents on other machines, unless that is off.
func (p *process) listenForRemote(ctx context.Context, o Options) (err error) {
	c := o.Config.Remote
	p.remoteListen = o.Remote
	if p.remoteListen == nil && c.Listen != "" {
		network := net.ListenConfig{Control: silence.Limit(silent)}
		if p.remoteListen, err = network.Listen(ctx, "tcp", c.Listen); err != nil {
			return fmt.Errorf("remote.listen: %w: set another address, or none", err)
		}
	}
	if p.remoteListen == nil {
		return nil
	}
	p.cleanup = append(p.cleanup, func() error { return closeOnce(p.remoteListen) })
	if c.CertFile != "" {
		_, err = access.FromFiles(c.CertFile, c.KeyFile)
	}
	p.log.Info("listening for agents on other machines", "url", p.RemoteURL())
	return err
}

// RemoteURL returns the URL for agents on other machines; empty if none are listened for. Where all
// addresses are listened on, it has the machine's name.
func (p *process) RemoteURL() string {
	if p.remoteListen == nil {
		return ""
	}
	address := p.remoteListen.Addr().String()
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			address = net.JoinHostPort(name, fmt.Sprint(at.Port()))
		}
	}
	return "https://" + address
}

// agentsOf returns the configured agents for the broker.
func agentsOf(c config.Config) []broker.Agent {
	var out []broker.Agent
	for _, a := range c.Agents {
		out = append(out, broker.Agent{Name: a.Name, UIDs: a.UIDs, Limit: a.MaxPerAgent})
	}
	return out
}

// listed returns the users that may use the agents' names, sorted and each once.
func listed(c config.Config) []int {
	var uids []int
	for _, a := range c.Agents {
		uids = append(uids, a.UIDs...)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// leads returns the agents that hear of every finished task.
func leads(c config.Config) []string {
	var names []string
	for _, a := range c.Agents {
		if a.Lead {
			names = append(names, a.Name)
		}
	}
	return names
}

// boundsOf returns for the journal the limits of reservations.
func boundsOf(c config.Config) brake.Bounds {
	b := brake.Bounds{Breaker: brake.Breaker(c.Claim.Breaker)}
	b.Zone, _ = c.Limits.Location() // a configuration is valid
	for _, a := range c.Agents {
		if l := (brake.DayLimit{Name: a.Name, Grants: a.MaxPerDay, Micros: api.Micros(a.MaxUSDPerDay)}); l.Grants > 0 || l.Micros > 0 {
			b.Days = append(b.Days, l)
		}
	}
	return b
}
