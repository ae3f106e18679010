package emulator

import "slices"

// Built-in ids of every workspace: the integration of the token, and the person who makes changes
// that bypass the API.
const (
	botName       = "dibs"
	botID         = "6d2f5c1e-94a3-4c0b-8b53-0f7c2f1d9a10"
	workspaceName = "Workspace"
	integrationID = "b7c0a0f4-3f5e-4d0e-9a57-1f2f4a6e8c21"
	workspaceID   = "1a8ef6b2-5d3c-4e1f-a6b7-3c9d8e0f1a2b"
	personID      = "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a01"

	// homeID is the page that contains the databases.
	homeID = "9c1f0b6e-2a47-81d0-b3c5-7e6d5f4a3b21"
)

var builtinUsers = []*user{
	{ID: botID, Name: botName},
	{ID: personID, Name: "Maria", Person: true},
	{ID: "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a02", Name: "Jonas", Person: true},
	{ID: "3e5b7a90-1c2d-4f3e-8a4b-5c6d7e8f9a03", Name: "Priya", Person: true},
}

func (w *world) encodeUser(id string) map[string]any {
	u, ok := w.Users[id]
	if !ok {
		return partialUser(id)
	}
	m := map[string]any{"object": "user", "id": u.ID, "name": u.Name, "avatar_url": nil, "type": "bot", "bot": map[string]any{}}
	if u.Agent {
		delete(m, "bot")
		m["type"] = "agent"
	}
	if u.Person {
		delete(m, "bot")
		m["type"] = "person"
		person := map[string]any{}
		if u.Email != "" {
			person["email"] = u.Email
		}
		m["person"] = person
	}
	return m
}

// partialUser encodes a user as created_by shows it.
func partialUser(id string) map[string]any { return map[string]any{"object": "user", "id": id} }

func (c *call) getMe() (render, error) {
	return func() map[string]any {
		m := c.world.encodeUser(botID)
		m["bot"] = map[string]any{
			"owner":            map[string]any{"type": "workspace", "workspace": true},
			"workspace_name":   workspaceName,
			"workspace_id":     workspaceID,
			"workspace_limits": map[string]any{"max_file_upload_size_in_bytes": 5 << 20},
		}
		return m
	}, nil
}

func (c *call) getUser() (render, error) {
	id := c.params["user_id"]
	if _, ok := c.world.Users[id]; !ok {
		return nil, notFound("user", id)
	}
	return func() map[string]any { return c.world.encodeUser(id) }, nil
}

func (c *call) listUsers() (render, error) {
	var all []any
	ids := sortedKeys(c.world.Users)
	slices.SortStableFunc(ids, func(a, b string) int { return compareBools(b == botID, a == botID) })
	for _, id := range ids {
		all = append(all, c.world.encodeUser(id))
	}
	return c.list("user", all, c.param)
}
