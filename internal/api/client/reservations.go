package client

import (
	"context"
	"net/http"
	"net/url"

	"dibs/internal/api"
	"dibs/internal/reserve"
	"dibs/internal/reserve/place"
)

// Reserve reserves what patterns mean that are given in a folder, an absolute path: all of
// it or nothing. It fills in what body says of both.
func (c *Client) Reserve(ctx context.Context, folder string, patterns []string, body api.ReserveRequest, key string) (api.Reservation, error) {
	targets, err := place.Patterns(folder, patterns)
	if err != nil {
		return api.Reservation{}, api.NewProblem(api.CodeInvalidRequest, err.Error())
	}
	body.Folder, body.Targets = folder, nil
	for _, t := range targets {
		body.Targets = append(body.Targets, api.ReserveTarget{Pattern: t.Text, At: spotsOf(t), Files: t.Files})
	}
	made, err := ask[api.Reserved](ctx, c, post("/v1/reservations", body, key))
	return made.Reservation, err
}

// Unreserve ends a reservation; agent, if it is not empty, has to be whose it is.
func (c *Client) Unreserve(ctx context.Context, id, agent string) (api.Reservation, error) {
	q := make(query)
	q.add("agent", agent)
	r := get("/v1/reservations/"+url.PathEscape(id), q)
	r.method = http.MethodDelete
	done, err := ask[api.Reserved](ctx, c, r)
	return done.Reservation, err
}

// Reservations returns what is reserved: by agent, or by all if it is empty.
func (c *Client) Reservations(ctx context.Context, agent string) (api.Reservations, error) {
	q := make(query)
	q.add("agent", agent)
	return ask[api.Reservations](ctx, c, get("/v1/reservations", q))
}

// maxBatch is about how many bytes of paths go with one request.
const maxBatch = 40 << 10

// MayTouch asks whether an agent may touch all of these files, which are named in a folder,
// an absolute path. It is one request for up to some hundred of them, which costs none to
// Notion and waits for nothing. The error is an *api.Problem of code reserved if something
// of it is somebody else's.
func (c *Client) MayTouch(ctx context.Context, agent, folder string, paths ...string) (api.Checked, error) {
	targets, err := place.Paths(folder, paths)
	if err != nil {
		return api.Checked{}, api.NewProblem(api.CodeInvalidRequest, err.Error())
	}
	checked := api.Checked{Paths: []string{}}
	for len(targets) > 0 {
		body := api.CheckRequest{Agent: agent}
		for size := 0; len(targets) > 0 && size < maxBatch && len(body.Targets) < reserve.MaxPaths; targets = targets[1:] {
			t := api.CheckTarget{Path: targets[0].Text, At: spotsOf(targets[0]), Folder: targets[0].Folder}
			body.Targets = append(body.Targets, t)
			size += 40 + len(t.Path)
			for _, s := range t.At {
				size += 20 + len(s.In) + len(s.Path)
			}
		}
		part, err := ask[api.Checked](ctx, c, post("/v1/reservations/check", body, ""))
		if err != nil {
			return api.Checked{}, err
		}
		checked.Paths = append(checked.Paths, part.Paths...)
	}
	return checked, nil
}

func spotsOf(t reserve.Target) []api.Spot {
	spots := make([]api.Spot, len(t.At))
	for i, s := range t.At {
		spots[i] = api.Spot{In: s.Place, Path: s.Path}
	}
	return spots
}
