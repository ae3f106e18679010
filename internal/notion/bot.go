package notion

import "context"

// Bot is who the token belongs to.
type Bot struct {
	ID        string
	Name      string
	Workspace string
	// OwnedBy is "workspace" for a connection of the workspace, and "user" for one that
	// acts for a person.
	OwnedBy string
	// MaxUpload is how many bytes a file may have; zero if Notion does not say. It is
	// all that Notion tells of the workspace's plan.
	MaxUpload int64
}

// FreeUpload is the largest file of a workspace on the Free plan, in bytes.
const FreeUpload = 5 << 20

// Me asks Notion who the token belongs to.
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
