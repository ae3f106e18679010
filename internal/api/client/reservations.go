package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dibs/internal/api"
	"dibs/internal/reserve"
	"dibs/internal/reserve/place"
)

// Reserve reserves what the patterns match: all of it or nothing. The patterns are relative to
// folder, an absolute path. Reserve fills in both in body.
func (c *Client) Reserve(ctx context.Context, folder string, patterns []string, body api.ReserveRequest, key string) (api.Reservation, error) {
	targets, err := place.Patterns(folder, patterns)
	if err != nil {
		return api.Reservation{}, api.NewProblem(api.CodeInvalidRequest, err.Error())
	}
	body.Folder, body.Targets = folder, nil
	for _, t := range targets {
		body.Targets = append(body.Targets, api.ReserveTarget{Pattern: t.Text, At: spotsOf(t), Files: t.Files})
	}
	made, err := Do(ctx, c, api.OpReserve, api.KeyedInput[api.ReserveRequest]{Key: key, Body: body})
	return made.Reservation, err
}

// Unreserve ends a reservation. agent, if not empty, must be its owner.
func (c *Client) Unreserve(ctx context.Context, id, agent string) (api.Reservation, error) {
	done, err := Do(ctx, c, api.OpUnreserve, api.UnreserveInput{ID: id, Agent: agent})
	return done.Reservation, err
}

// Reserved returns all reservations as a Set, with one request, so that Taken can compare any
// number of files with them. Unreadable reservations are left out; the error names them, beside a
// usable Set.
func (c *Client) Reserved(ctx context.Context) (reserve.Set, error) {
	list, err := Do(ctx, c, api.OpReservations, api.ListReservationsInput{Targets: true})
	if err != nil {
		return reserve.Set{}, err
	}
	var all []reserve.Reservation
	for _, r := range list.Reservations {
		of := reserve.Reservation{ID: r.ID, Agent: r.Agent, Shared: r.Shared, Until: r.ExpiresAt.Time, Member: r.Member}
		for _, t := range r.Targets {
			target := reserve.Target{Text: t.Pattern, Files: t.Files}
			for _, s := range t.At {
				target.At = append(target.At, reserve.Spot{Place: s.In, Path: s.Path})
			}
			of.Targets = append(of.Targets, target)
		}
		all = append(all, of)
	}
	return reserve.NewSet(all)
}

// Taken calls found for each file that others have reserved in the Set, in the order of the files.
// Paths are relative to folder, an absolute path. It sends no request; it looks where the files
// lie, until ctx ends. The error says which files were not compared, and why.
func Taken(ctx context.Context, set reserve.Set, agent, folder string, paths []string, found func(*reserve.Taken)) error {
	if set.Empty() {
		return nil
	}
	at, err := place.NewFolder(folder)
	if err != nil {
		return err
	}
	var failed []error
	left := len(paths)
	for some := range slices.Chunk(paths, reserve.MaxPaths) {
		if ctx.Err() != nil {
			failed = append(failed, fmt.Errorf("there was no time for %d of %d files, from %s on", left, len(paths), some[0]))
			break
		}
		left -= len(some)
		var targets []reserve.Target
		for _, path := range some {
			t, err := at.Path(path)
			if err != nil { // such as a link to itself; the others still count
				failed = append(failed, err)
				continue
			}
			targets = append(targets, t)
		}
		taken, err := set.Taken(agent, targets)
		if err != nil { // caused by one of them
			for i := range targets {
				one, err := set.Taken(agent, targets[i:i+1])
				failed, taken = append(failed, err), append(taken, one...)
			}
		}
		for _, t := range taken {
			if t != nil {
				found(t)
			}
		}
	}
	return errors.Join(failed...)
}

// maxBatch is roughly how many bytes of paths one request carries.
const maxBatch = 40 << 10

// MayTouch asks whether an agent may touch all of these files. Paths are relative to folder, an
// absolute path. Some hundred files take one request, which needs no request to Notion and does not
// wait. If somebody else reserved one of them, the error is an *api.Problem of code reserved.
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
		part, err := Do(ctx, c, api.OpCheck, api.CheckInput{Body: body})
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
