package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
)

// maxContent bounds the content of a new page, in bytes: it is more than Notion takes.
const maxContent = 512 << 10

func (a *app) addCommand() *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add TITLE",
		Short: "Make a task",
		Long: "Make a task, which is OPEN and can be claimed at once. If Notion does not answer, dibs may not know\n" +
			"whether the task was made, and says so. Repeat the command with the same --request-id: it finds out, and\n" +
			"never makes a second task. In any other failure nothing was made.\n\n" +
			"--field fills any property of the database that can be written, in whatever case its name is given.\n" +
			"Give several values with commas between them, or repeat the flag.\n" +
			"Exit code 3: there is no such task to depend on. 6: Notion cannot be reached, or refuses.",
		Example: "  dibs add \"Write the release notes\" --priority high --depends-on T-3 --depends-on T-4\n" +
			"  dibs add \"Look at the logs\" --for Oracle --body plan.md --field Sprint=12 --field \"Area=api,web\"",
		Args: arguments("TITLE"),
		RunE: a.asking(with(&o, a.runAdd)),
	}
	o.add(a, cmd)
	return cmd
}

type addOptions struct {
	body    api.AddRequest
	content string // the file with the page's content
	fields  []string
}

func (o *addOptions) add(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.content, "body", "", "a `file` with the content of the page, in Markdown; - is stdin")
	flags.StringVar(&o.body.Priority, "priority", "", "its `priority`, as the board calls it, or critical, high, medium or low")
	flags.StringArrayVar(&o.body.DependsOn, "depends-on", nil, "a `task` that it waits for; can be repeated")
	flags.StringArrayVar(&o.fields, "field", nil, "a value for a property of the database, `NAME=VALUE`; can be repeated")
	flags.StringVar(&o.body.For, "for", "", "the `agent` that it is assigned to")
	completeFlag(cmd, "priority", a.priorities)
	completeFlag(cmd, "depends-on", a.someTasks(api.TaskFilter{}))
	a.addRequestID(cmd)
}

func (a *app) runAdd(cmd *cobra.Command, daemon *client.Client, o addOptions, args []string) error {
	if err := a.checkAgent(); err != nil {
		return err
	}
	o.body.Agent, o.body.Title = a.agent, strings.TrimSpace(args[0])
	if o.body.Title == "" {
		return usagef("a task needs a title")
	}
	var err error
	if o.body.Fields, err = fieldsOf(o.fields); err != nil {
		return err
	}
	for _, name := range o.body.DependsOn {
		if _, err := taskID(name); err != nil {
			return err
		}
	}
	if cmd.Flags().Changed("body") {
		if o.body.Body, err = contentOf(cmd.InOrStdin(), o.content); err != nil {
			return err
		}
	}
	minted := a.request == ""
	if minted {
		a.request = "add-" + ulid.Make().String()
	}
	added, err := a.added(cmd.Context(), func(ctx context.Context, body api.AddRequest, key string) (api.Added, error) {
		return client.Do(ctx, daemon, api.OpAddTask, api.AddInput{Key: key, Body: body})
	}, o.body, a.request, minted)
	if err != nil {
		return err
	}
	line := "added " + quoted(added.Task.TaskRef)
	if added.Task.AssignedTo != "" {
		line += ", assigned to " + clean(added.Task.AssignedTo)
	}
	if added.Task.Key == "" {
		line += ": " + clean(string(added.Task.ID))
	}
	return a.answer(added, line)
}

// added asks for a task to be made. If the outcome is unknown, the error says how to find out.
func (a *app) added(ctx context.Context, add func(context.Context, api.AddRequest, string) (api.Added, error), body api.AddRequest, key string, minted bool) (api.Added, error) {
	added, err := add(ctx, body, key)
	p, answered := errors.AsType[*api.Problem](err)
	switch {
	case answered && p.Unknown && minted:
		p.Detail += "; repeat the command with --request-id " + key
	case err != nil && !answered && minted && ctx.Err() == nil:
		a.say("If the daemon got the request, this finds out: repeat the command with --request-id %s", key)
	}
	return added, err
}

// fieldsOf parses the values of --field.
func fieldsOf(flags []string) (map[string]any, error) {
	fields := make(map[string]any)
	for _, flag := range flags {
		name, value, ok := strings.Cut(flag, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usagef("--field %q: want NAME=VALUE", flag)
		}
		switch before := fields[name].(type) {
		case nil:
			fields[name] = value
		case string:
			fields[name] = []string{before, value}
		case []string:
			fields[name] = append(before, value)
		}
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return fields, nil
}

// contentOf reads the content of a page from a file, or from stdin.
func contentOf(stdin io.Reader, name string) (string, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", usagef("--body: %w", err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxContent+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("--body %s: %w", name, err)
	case len(data) > maxContent:
		return "", usagef("--body %s: it has more than %d KiB, which Notion does not take with a page: give the first part, and add the rest in Notion", name, maxContent>>10)
	case !utf8.Valid(data):
		return "", usagef("--body %s: it is no text (UTF-8): give a text file", name)
	}
	return string(data), nil
}
