package notion

import "context"

// Bot is the user that the token belongs to.
type Bot struct {
	ID        string
	Name      string
	Workspace string
	// OwnedBy is "workspace" for a connection of the workspace, and "user" for one that
	// acts for a person.
	OwnedBy string
	// MaxUpload is the size limit of a file in bytes; zero if Notion does not say. Notion tells
	// nothing else of the workspace's plan.
	MaxUpload int64
}

// FreeUpload is the size limit of a file on the Free plan, in bytes.
const FreeUpload = 5 << 20

// Me asks Notion which user the token belongs to.
func (c *Client) Me(ctx context.Context) (Bot, error) {
	var user struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Bot  struct {
			Owner struct {
				Type string `json:"type"`
			} `json:"owner"`
			Workspace string `json:"workspace_name"`
			Limits    struct {
				MaxUpload int64 `json:"max_file_upload_size_in_bytes"`
			} `json:"workspace_limits"`
		} `json:"bot"`
	}
	if err := c.get(ctx, "/v1/users/me", nil, &user); err != nil {
		return Bot{}, storeError(err)
	}
	c.bot.Store(&user.ID)
	return Bot{user.ID, user.Name, user.Bot.Workspace, user.Bot.Owner.Type, user.Bot.Limits.MaxUpload}, nil
}

// Bot returns the id of the user that the token belongs to. It asks Notion once.
func (c *Client) Bot(ctx context.Context) (string, error) {
	if known := c.KnownBot(); known != "" {
		return known, nil
	}
	me, err := c.Me(ctx)
	return me.ID, err
}

// KnownBot is Bot without a request; empty if Notion was not asked yet.
func (c *Client) KnownBot() string {
	if id := c.bot.Load(); id != nil {
		return *id
	}
	return ""
}
