package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/claim"
	"dibs/internal/reserve"
	"dibs/internal/reserve/place"

	"github.com/spf13/cobra"
)

func (a *app) reserveCommand() *cobra.Command {
	var o reserveOptions
	cmd := &cobra.Command{
		Use:   "reserve PATTERN...",
		Short: "Reserve files, or other things that only one agent should touch",
		Long: "Reserve files for this agent alone: all of them, or none. A PATTERN is one of a .gitignore\n" +
			"that stands in the current folder: src/*.go, docs/, /go.mod; quote it, or the shell puts names in its\n" +
			"place. A file in a repository is meant in all its worktrees. What is no file has a name: name:db-migrations.\n" +
			"Repeat the command to renew the reservation. It ends when its time is up, or with its claim or process.\n" +
			"Exit code 3: somebody else has something of it, and nothing was reserved.",
		Example: "  dibs reserve 'src/api/**' go.mod --agent Sandman --for 1h\n" +
			"  dibs reserve name:db-migrations --agent Sandman --claim T-3",
		Args:              many("PATTERN"),
		ValidArgsFunction: filesToo,
		RunE:              a.asking(with(&o, a.runReserve)),
	}
	o.add(a, cmd)
	return cmd
}

type reserveOptions struct {
	body  api.ReserveRequest
	all   bool
	lasts time.Duration
}

func (o *reserveOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.all, "all", false, "take a pattern for all files of the repository, such as '**', at its word")
	cmd.Flags().BoolVar(&o.body.Shared, "shared", false, "let others have it, too, who ask for it with --shared")
	cmd.Flags().DurationVar(&o.lasts, "for", 0, "how long, at most 24h (30m if there is neither --claim nor --pid)")
	cmd.Flags().StringVar(&o.body.Claim, "claim", "", "end it with this claim, an `id`, or a task's key, id or URL")
	cmd.Flags().IntVar(&o.body.PID, "pid", 0, "end it with this process, a `number`")
	completeFlag(cmd, "claim", a.ownTasks)
	a.addRequestID(cmd)
}

func (a *app) runReserve(cmd *cobra.Command, daemon *client.Client, o reserveOptions, patterns []string) (err error) {
	if o.body.Agent, err = a.claimer(); err != nil {
		return err
	}
	if cmd.Flags().Changed("for") && (o.lasts <= 0 || o.lasts > reserve.MaxFor) {
		return usagef("--for %v: want a time up to %v", o.lasts, reserve.MaxFor)
	}
	if cmd.Flags().Changed("pid") && o.body.PID <= 0 {
		return usagef("--pid %d: want the number of a process", o.body.PID)
	}
	if cmd.Flags().Changed("claim") {
		if o.body.Claim, err = claimID(o.body.Claim); err != nil {
			return err
		}
	}
	folder, err := here()
	if err != nil {
		return err
	}
	if whole := place.Whole(folder, patterns); whole != "" && !o.all {
		return usagef("%q is all files of the repository, and keeps every other agent out: reserve what this agent will change, or give --all", whole)
	}
	o.body.ForSeconds = o.lasts.Seconds()
	made, err := daemon.Reserve(cmd.Context(), folder, patterns, o.body, a.request)
	if err != nil {
		return err
	}
	return a.print(api.Reserved{Reservation: made}, func(w io.Writer) {
		verb := " reserved "
		if made.Shared {
			verb = " shares "
		}
		row(w, clean(made.Agent)+verb+somePatterns(made)+lasting(made.ExpiresAt, time.Now())+"; give it back with: dibs unreserve "+clean(made.ID))
	})
}

func (a *app) unreserveCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "unreserve ID...",
		Short: "Give back what is reserved",
		Long: "End reservations. Name each by the id that dibs reservations prints. A reservation of one pattern or name\n" +
			"can also be named by that, as it was written. With --agent or DIBS_AGENT it must be that agent's.\n" +
			"Exit code 4: there is no such reservation, or none any longer.",
		Example: "  dibs unreserve --all --agent Sandman\n  dibs unreserve name:db-migrations --agent Sandman",
		Args: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usagef("--all is all that the agent has reserved: leave out %q, or --all", args[0])
			}
			if all {
				return nil
			}
			return many("ID")(cmd, args)
		},
		ValidArgsFunction: suggestions(a.ownReservations).complete,
		RunE:              a.asking(with(&all, a.runUnreserve)),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that the agent has reserved")
	return cmd
}

func (a *app) runUnreserve(cmd *cobra.Command, daemon *client.Client, all bool, ids []string) error {
	if err := a.checkAgent(); err != nil {
		return err
	}
	ctx := cmd.Context()
	if all {
		agent, err := a.claimer()
		if err != nil {
			return err
		}
		list, err := client.Do(ctx, daemon, api.OpReservations, api.ListReservationsInput{Agent: agent})
		if err != nil {
			return err
		}
		for _, r := range list.Reservations {
			ids = append(ids, r.ID)
		}
	}
	ended := api.Reservations{Reservations: []api.Reservation{}}
	var failed error // the first one
	for _, id := range ids {
		var r api.Reservation
		id, err := a.reservationID(ctx, daemon, id)
		if err == nil {
			r, err = daemon.Unreserve(ctx, id, a.agent)
		}
		if err == nil {
			ended.Reservations = append(ended.Reservations, r)
		} else if failed == nil {
			failed = err
		}
	}
	if failed != nil && a.json {
		return failed
	}
	err := a.print(ended, func(w io.Writer) {
		for _, r := range ended.Reservations {
			row(w, "gave back "+somePatterns(r))
		}
	})
	if failed != nil {
		return failed
	}
	if len(ids) == 0 {
		a.say("%s has nothing reserved", clean(a.agent))
	}
	return err
}

// reservationID returns the id of a reservation, given the id itself or the only pattern reserved
// with it. With an agent, only the agent's reservations count.
func (a *app) reservationID(ctx context.Context, daemon *client.Client, name string) (string, error) {
	if id, ok := claim.ParseID(strings.ToUpper(name)); ok {
		return string(id), nil
	}
	folder, err := here()
	if err != nil {
		return "", err
	}
	list, err := client.Do(ctx, daemon, api.OpReservations, api.ListReservationsInput{Agent: a.agent})
	if err != nil {
		return "", err
	}
	var meant []api.Reservation
	everywhere := strings.HasPrefix(name, reserve.NamePrefix) // a name applies in every folder
	for _, r := range list.Reservations {
		if slices.Equal(r.Patterns, []string{name}) && (everywhere || r.Folder == "" || r.Folder == folder) {
			meant = append(meant, r)
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0].ID, nil
	case len(meant) > 1:
		return "", usagef("%s is reserved %d times: give the id of one: %s", clean(name), len(meant), choices(meant))
	}
	text := clean(name) + " is neither the id of a reservation nor all that one is of, in this folder"
	if len(list.Reservations) == 0 {
		text += ", and there is none"
		if a.agent != "" {
			text += " of " + clean(a.agent)
		}
		return "", api.NewProblem(api.CodeUnknownReservation, text+": see dibs reservations")
	}
	return "", api.NewProblem(api.CodeUnknownReservation, text+": give the id of one: "+choices(list.Reservations))
}

// choices lists reservations by their ids, as many as fit in a line.
func choices(list []api.Reservation) string {
	var names []string
	for i, r := range list {
		if i == maxHeld {
			names = append(names, fmt.Sprintf("… and %d more, see dibs reservations", len(list)-i))
			break
		}
		in := ""
		if r.Folder != "" {
			in = " in " + clean(r.Folder)
		}
		names = append(names, fmt.Sprintf("%s (%s of %s%s)", clean(r.ID), somePatterns(r), clean(r.Agent), in))
	}
	return strings.Join(names, ", ")
}

func (a *app) reservationsCommand() *cobra.Command {
	var limit limitFlag
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List what is reserved",
		Long: "List what agents have reserved with dibs reserve: what, by whom, and until when. --agent limits the list\n" +
			"to one agent.",
		RunE: a.asking(with(&limit, a.runReservations)),
	}
	limit.add(cmd)
	return cmd
}

func (a *app) runReservations(cmd *cobra.Command, daemon *client.Client, limit limitFlag, _ []string) error {
	if err := limit.check(); err != nil {
		return err
	}
	agent, err := a.only(cmd)
	if err != nil {
		return err
	}
	reserved, err := client.Do(cmd.Context(), daemon, api.OpReservations, api.ListReservationsInput{Agent: agent})
	if err != nil {
		return err
	}
	shown, left := limited(a, cmd, limit, reserved.Reservations)
	now := time.Now()
	return list[api.Reservation]{document: api.Reservations{Reservations: shown}, items: shown, empty: "Nothing is reserved.", left: left, columns: []column[api.Reservation]{
		{name: "AGENT", cell: func(r api.Reservation) cell { return plain(clean(r.Agent)) }},
		{name: "UNTIL", cell: func(r api.Reservation) cell {
			return plain(clock(r.ExpiresAt.Time, now) + ", in " + length(r.ExpiresAt.Sub(now)))
		}},
		{name: "RESERVATION", cell: func(r api.Reservation) cell { return plain(clean(r.ID)).in(faint) }},
		{name: "WHAT", cell: func(r api.Reservation) cell { return plain(somePatterns(r)) }},
		{name: "IN", cell: func(r api.Reservation) cell { return plain(clean(r.Folder)).in(faint) }},
		{name: "MEMBER", cell: func(r api.Reservation) cell { return plain(clean(r.Member)) },
			hide: !slices.ContainsFunc(shown, func(r api.Reservation) bool { return r.Member != "" })},
	}}.print(a)
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check PATH...",
		Short: "Ask whether files may be touched, or somebody else has reserved them",
		Long: "Ask whether the agent may touch files, or somebody else has reserved them. They need not be there yet.\n" +
			"A folder is all that is in it. A name, such as name:db-migrations, can be asked about, too.\n" +
			"Exit code 3: something is somebody else's; the answer says whose, and until when.",
		Example:           "  dibs check src/main.go --agent Sandman && $EDITOR src/main.go",
		Args:              many("PATH"),
		ValidArgsFunction: filesToo,
		RunE: a.asking(func(cmd *cobra.Command, daemon *client.Client, paths []string) error {
			if err := a.checkAgent(); err != nil {
				return err
			}
			folder, err := here()
			if err != nil {
				return err
			}
			checked, err := daemon.MayTouch(cmd.Context(), a.agent, folder, paths...)
			if err != nil {
				return err
			}
			return a.print(checked, func(w io.Writer) {
				for _, path := range checked.Paths {
					row(w, clean(path), "nobody else's")
				}
			})
		}),
	}
}

// here returns the current folder.
func here() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		err = fmt.Errorf("the current folder cannot be found out: %w: go to one that is there", err)
	}
	return folder, err
}

// repository returns the repository of the current folder, see api.ClaimRequest; empty outside of one.
func repository() string {
	folder, err := here()
	if err != nil {
		return ""
	}
	return place.Repository(folder)
}
