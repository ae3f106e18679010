package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// unavailable reports whether err says that Notion cannot be reached.
func unavailable(err error) bool {
	failed, isFailed := errors.AsType[*claim.StoreError](err)
	return isFailed && failed.Kind == claim.Unavailable
}

// connectWait is how long Start waits for Notion to describe the databases if an earlier run knew
// them. It must be short: the socket is already open, and no caller is answered before Start
// returns.
const connectWait = 5 * time.Second

// errConnect is the cause of a request that was cancelled after connectWait.
var errConnect = fmt.Errorf("no answer within %s", connectWait)

// openTasks opens the tasks database with the schema that Notion gives, asked with the context
// asking. If Notion cannot be reached, it uses the schema of an earlier run, and down is the
// reason. known is empty if there was no earlier run; was is the data source that it used.
func (d *leader) openTasks(ctx, asking context.Context, known string, was task.ID) (down, err error) {
	schema := workspace.Schema(d.config)
	schema.Known = known
	d.tasks, err = d.notion.Tasks(asking, d.config.Databases.Tasks, schema)
	if unavailable(err) && known != "" {
		if recalled, rerr := d.notion.RecallTasks(d.config.Databases.Tasks, schema); rerr == nil {
			d.log.Warn("Notion cannot be reached; the tasks are as of the last run", claim.AttrError, err)
			d.tasks, down, err = recalled, err, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if now := d.notion.Sources()[d.tasks.ID()]; was != "" && was != now.Source { // another one is named, or the former one is gone
		if err := d.hasHeld(notion.Impatient(ctx), now); err != nil {
			return nil, err
		}
	}
	return down, mirror.KeepSchema(ctx, d.journal, d.tasks.Known())
}

// openLog opens a log database. If Notion cannot be reached and an earlier run used the database,
// its schema is read once Notion answers.
func (d *leader) openLog(ctx context.Context, id string, earlier bool) (wording.Writer, error) {
	log, err := d.notion.Log(ctx, id)
	if unavailable(err) && earlier {
		return d.notion.RecallLog(id)
	}
	return log, err
}

// connect opens the three databases, which checks the token, the sharing and the schema. It does
// not wait if Notion asks for a long pause. If the schema of the tasks is from an earlier run, down
// is the reason; otherwise it is nil.
func (d *leader) connect(ctx context.Context, transport http.RoundTripper) (logs map[claim.Log]wording.Writer, down, err error) {
	c := d.config
	if d.notion, err = workspace.Connect(c.Notion, transport, d.log); err != nil {
		return nil, nil, err
	}
	if err := c.Databases.Named(); err != nil {
		return nil, nil, err
	}
	workspace.Choose(d.notion, c.Databases)
	known, err := mirror.Schema(ctx, d.journal)
	if err != nil {
		return nil, nil, err
	}
	was, err := d.recallSources(ctx)
	if err != nil {
		return nil, nil, err
	}
	asking := notion.Impatient(ctx)
	if known != "" {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeoutCause(asking, connectWait, errConnect)
		defer cancel()
	}
	if down, err = d.openTasks(ctx, asking, known, was); err != nil {
		return nil, nil, fmt.Errorf("databases.tasks: %w", err)
	}
	logs = make(map[claim.Log]wording.Writer)
	for _, db := range []struct {
		log     claim.Log
		key, id string
	}{
		{claim.MeshLog, "databases.mesh_log", c.Databases.MeshLog},
		{claim.TaskLog, "databases.task_log", c.Databases.TaskLog},
	} {
		if logs[db.log], err = d.openLog(asking, db.id, known != ""); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", db.key, err)
		}
	}
	return logs, down, nil
}

// metaHome is the journal's key for the home.
const metaHome = "home"

// home is the tasks database and workspace to which a state directory belongs: all its claims,
// outbox entries and mirrored tasks are of that database.
type home struct {
	Database  task.ID `json:"database"`
	Title     string  `json:"title,omitempty"`
	Workspace string  `json:"workspace,omitempty"`
	Bot       string  `json:"bot,omitempty"` // the connection's id
}

// String names the database in a sentence.
func (h home) String() string {
	s := string(h.Database)
	if h.Title != "" && h.Title != s {
		s = fmt.Sprintf("%q (%s)", h.Title, s)
	}
	if h.Workspace != "" {
		s += fmt.Sprintf(" in workspace %q", h.Workspace)
	}
	return s
}

// storedHome returns the home in the journal, with an empty Database if there is none. A journal of
// an earlier version has at least the last schema of its tasks database.
func (d *leader) storedHome(ctx context.Context) (h home, err error) {
	stored, err := d.journal.Meta(ctx, metaHome)
	if err != nil {
		return home{}, err
	}
	if stored != "" {
		return h, json.Unmarshal([]byte(stored), &h)
	}
	known, err := mirror.Schema(ctx, d.journal)
	return home{Database: notion.KnownDatabase(known)}, err
}

// checkHome returns an error if the configured tasks database is not the one to which the state
// directory belongs. It changes nothing.
func (d *leader) checkHome(ctx context.Context, transport http.RoundTripper) error {
	owner, err := d.storedHome(ctx)
	if err != nil || owner.Database == "" {
		return err
	}
	id, err := task.ParseID(d.config.Databases.Tasks)
	if err != nil || id == owner.Database {
		return nil // an invalid id is refused when the database is opened
	}
	other := home{Database: id}
	if client, err := workspace.Connect(d.config.Notion, transport, d.log); err == nil {
		ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
		defer cancel()
		other = d.nameHome(ctx, client, other)
	}
	return fmt.Errorf("the state directory %s belongs to tasks database %s, and databases.tasks names %s: set another state_dir (and socket) for that one, or databases.tasks back; nothing was changed",
		d.config.StateDir, owner, other)
}

// nameHome fills in the names of h that Notion gives.
func (d *leader) nameHome(ctx context.Context, client *notion.Client, h home) home {
	if bot, err := client.Me(ctx); err == nil {
		h.Workspace, h.Bot = bot.Workspace, bot.ID
	}
	if db, err := client.Database(ctx, string(h.Database)); err == nil {
		h.Title = db.Title
	}
	return h
}

// keepHome stores the home at the first start, and updates its names later. It asks Notion at most
// once.
func (d *leader) keepHome(ctx context.Context) error {
	before, err := d.storedHome(ctx)
	if err != nil {
		return err
	}
	now := home{Database: d.tasks.ID(), Title: cmp.Or(d.tasks.Title(), before.Title), Workspace: before.Workspace, Bot: before.Bot}
	if now.Workspace == "" && now.Bot == "" {
		ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
		defer cancel()
		if bot, err := d.notion.Me(ctx); err == nil {
			now.Workspace, now.Bot = bot.Workspace, bot.ID
		} else {
			d.log.Debug("the workspace is not named in the journal yet", claim.AttrError, err)
		}
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if stored, err := d.journal.Meta(ctx, metaHome); err != nil || stored == string(data) {
		return err
	}
	return d.journal.SetMeta(ctx, metaHome, string(data))
}

// recallSources gives the client the data sources of the databases as an earlier run found them. It
// returns that of the tasks; empty if it is not known.
func (d *leader) recallSources(ctx context.Context) (tasks task.ID, err error) {
	stored, err := d.journal.Meta(ctx, journal.MetaSources)
	var known map[task.ID]notion.Choice
	if err == nil && json.Unmarshal([]byte(stored), &known) == nil { // else they are found again
		d.notion.RecallSources(known)
	}
	return known[task.ID(d.config.Databases.Tasks)].Source, err
}

// keepSources stores the data sources of the databases, so that the next run does not look for them.
func (d *leader) keepSources(ctx context.Context) error {
	data, err := json.Marshal(d.notion.Sources())
	if err != nil {
		return err
	}
	if stored, err := d.journal.Meta(ctx, journal.MetaSources); err != nil || stored == string(data) {
		return err
	}
	return d.journal.SetMeta(ctx, journal.MetaSources, string(data))
}

// hasHeld checks that a data source contains every task that is held here or whose finish Notion
// does not have yet. A task of another data source would never be found again.
func (d *leader) hasHeld(ctx context.Context, used notion.Choice) error {
	live, _, err := d.journal.Live(ctx)
	if err != nil {
		return err
	}
	for _, cl := range live {
		if cl.State != claim.Finishing && (cl.State != claim.Held || !cl.StaleAt.After(d.notion.Now())) {
			continue
		}
		in, err := d.notion.SourceOf(ctx, cl.Task.ID)
		if err != nil {
			return err
		}
		if in != used.Source {
			return fmt.Errorf("data source %q does not have %q, which %s holds: name the one that has it", cmp.Or(used.Wanted, string(used.Source)), cl.Task.Title, cl.Agent)
		}
	}
	return nil
}

// knowBot asks Notion who this daemon is to it, until that has been answered once. Only the check of a
// shared journal and webhooks need to know before the first claim is written: see watcher.Wrote.
func (d *leader) knowBot(ctx context.Context) {
	if d.shared == nil && d.hookListen == nil || d.notion.KnownBot() != "" && d.doubt.Bot() != "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
	defer cancel()
	bot, err := d.notion.Bot(ctx)
	if err != nil {
		d.log.Debug("who this daemon is to Notion is not known yet", claim.AttrError, err)
		return
	}
	d.isBot(ctx, bot)
}

// isBot has the check of the journal know who this daemon is to Notion.
func (d *leader) isBot(ctx context.Context, bot string) {
	if err := d.doubt.SetBot(ctx, bot); err != nil {
		d.log.Debug("who this daemon is to Notion is not stored", claim.AttrError, err)
	}
}
