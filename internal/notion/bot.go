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
	return Bot{user.ID, user.Name, user.Bot.Workspace, user.Bot.Owner.Type, user.Bot.Limits.MaxUpload}, nil
}
