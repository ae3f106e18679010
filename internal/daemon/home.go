package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"dibs/internal/claim"
	"dibs/internal/mirror"
	"dibs/internal/notion"
	"dibs/internal/notion/workspace"
	"dibs/internal/task"
)

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

// keptHome returns the home in the journal, with an empty Database if there is none. A journal of
// an earlier version has at least the last schema of its tasks database.
func (d *works) keptHome(ctx context.Context) (h home, err error) {
	said, err := d.journal.Meta(ctx, metaHome)
	if err != nil {
		return home{}, err
	}
	if said != "" {
		return h, json.Unmarshal([]byte(said), &h)
	}
	known, err := mirror.Schema(ctx, d.journal)
	return home{Database: notion.KnownDatabase(known)}, err
}

// checkHome returns an error if the configured tasks database is not the one to which the state
// directory belongs. It changes nothing.
func (d *works) checkHome(ctx context.Context, transport http.RoundTripper) error {
	kept, err := d.keptHome(ctx)
	if err != nil || kept.Database == "" {
		return err
	}
	id, err := task.ParseID(d.config.Databases.Tasks)
	if err != nil || id == kept.Database {
		return nil // an invalid id is refused when the database is opened
	}
	other := home{Database: id}
	if client, err := workspace.Connect(d.config.Notion, transport, d.log); err == nil {
		ctx, cancel := context.WithTimeoutCause(notion.Impatient(ctx), connectWait, errConnect)
		defer cancel()
		other = d.nameHome(ctx, client, other)
	}
	return fmt.Errorf("the state directory %s belongs to tasks database %s, and databases.tasks names %s: set another state_dir (and socket) for that one, or databases.tasks back; nothing was changed",
		d.config.StateDir, kept, other)
}

// nameHome fills in the names of h that Notion gives.
func (d *works) nameHome(ctx context.Context, client *notion.Client, h home) home {
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
func (d *works) keepHome(ctx context.Context) error {
	kept, err := d.keptHome(ctx)
	if err != nil {
		return err
	}
	now := home{Database: d.tasks.ID(), Title: cmp.Or(d.tasks.Title(), kept.Title), Workspace: kept.Workspace, Bot: kept.Bot}
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
	if said, err := d.journal.Meta(ctx, metaHome); err != nil || said == string(data) {
		return err
	}
	return d.journal.SetMeta(ctx, metaHome, string(data))
}
