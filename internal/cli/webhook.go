package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"dibs/internal/api"
	"dibs/internal/api/client"

	"github.com/spf13/cobra"
)

// hookPoll is how often the command looks whether Notion has posted something.
const hookPoll = time.Second

func (a *app) webhookCommand() *cobra.Command {
	var o webhookOptions
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Let Notion tell dibs of edits within seconds",
		Long: "Let Notion tell dibs of edits within seconds: print what to enter where in Notion, step by\n" +
			"step, and wait until it works. The daemon has to listen for it (webhook.listen in the\n" +
			"configuration), at an address that Notion reaches by a tunnel or a proxy. Off a terminal, print\n" +
			"what is known and wait for nothing. Only the daemon's user, and root, may see the token.",
		RunE: a.asking(with(&o, a.runWebhook)),
	}
	o.add(a, cmd)
	return cmd
}

type webhookOptions struct{ renew bool }

func (o *webhookOptions) add(a *app, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.renew, "renew", false, "forget the token, so that Notion may send another: for a subscription made anew")
	a.addRequestID(cmd)
}

func (a *app) runWebhook(cmd *cobra.Command, daemon *client.Client, o webhookOptions, _ []string) error {
	w, err := client.Do(cmd.Context(), daemon, api.OpWebhook, struct{}{})
	if err != nil {
		return err
	}
	if w.Address == "" && w.Token == "" && !a.json {
		return errors.New("the daemon listens for no webhook: set webhook.listen in the configuration, to 127.0.0.1:7332 for example, and restart it")
	}
	if o.renew {
		if w, err = client.Do(cmd.Context(), daemon, api.OpRenewWebhook, api.BareInput{Key: a.request}); err != nil {
			return err
		}
	}
	if !a.person() {
		return a.print(w, func(out io.Writer) { showWebhook(out, w, time.Now()) })
	}
	return a.setUpWebhook(cmd.Context(), daemon, w)
}

// hookSteps are what a person does in Notion.
const hookSteps = `dibs listens on %s.

1. Have a tunnel or a proxy pass a public https address on to it: docs/webhooks.md has both.
2. Open https://www.notion.so/my-integrations, your connection, "Webhooks", "Create a subscription".
   Enter that https address. Choose the events of pages, the creation of comments, and
   "Data source schema updated".
`

// setUpWebhook guides a person until events come.
func (a *app) setUpWebhook(ctx context.Context, daemon *client.Client, w api.Webhook) error {
	if w.Token == "" {
		fmt.Fprintf(a.stdout, hookSteps, clean(w.Address))
		fmt.Fprint(a.stdout, "\nWaiting for the token that Notion sends then. Ctrl-C to stop; it is kept when it comes.\n\n")
	}
	w, err := a.await(ctx, daemon, w, func(w api.Webhook) bool { return w.Token != "" })
	if err != nil {
		return err
	}
	if w.Received > 0 {
		showWebhook(a.stdout, w, time.Now())
		return nil
	}
	fmt.Fprintf(a.stdout, "3. Enter this token there, under \"Verify subscription\":\n\n   %s\n\n", clean(w.Token))
	fmt.Fprint(a.stdout, "   If Notion refuses it, somebody else posted it: dibs webhook --renew, and have Notion send it again.\n\n")
	fmt.Fprint(a.stdout, "4. Edit a task in Notion. Waiting for the event.\n\n")
	if w, err = a.await(ctx, daemon, w, func(w api.Webhook) bool { return w.Received > 0 }); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, "It works: Notion has sent an event. dibs status says how it goes.")
	return nil
}

// await asks the daemon until done says so.
func (a *app) await(ctx context.Context, daemon *client.Client, w api.Webhook, done func(api.Webhook) bool) (api.Webhook, error) {
	ticks := time.NewTicker(hookPoll)
	defer ticks.Stop()
	for !done(w) {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return w, context.Cause(ctx)
		}
		next, err := client.Do(ctx, daemon, api.OpWebhook, struct{}{})
		if _, away := errors.AsType[*client.UnreachableError](err); away {
			continue // it is being restarted
		}
		if err != nil {
			return w, err
		}
		if next.Refused != nil && (w.Refused == nil || next.Refused.At != w.Refused.At) {
			fmt.Fprintf(a.stdout, "   Refused: %s\n", refusedLine(next.Refused, next.LastAt, time.Now()))
		}
		w = next
	}
	return w, nil
}

func showWebhook(out io.Writer, w api.Webhook, now time.Time) {
	row(out, "address", clean(w.Address))
	if line := refusedLine(w.Refused, w.LastAt, now); line != "" {
		row(out, "refused", line)
	}
	if w.Token == "" {
		row(out, "token", "none yet: make a subscription in Notion for the public address of this one")
		return
	}
	row(out, "token", clean(w.Token))
	if !w.RefusedAt.IsZero() {
		row(out, "refused", "another token, "+ago(w.RefusedAt.Time, now)+": if it was Notion's, run dibs webhook --renew")
	}
	row(out, "events", eventsLine(w.Received, w.LastAt, now))
}

// refusedLine says which request was refused last; nothing if an event came since.
func refusedLine(r *api.RefusedHook, last *api.Time, now time.Time) string {
	if r == nil || last != nil && last.After(r.At.Time) {
		return ""
	}
	return fmt.Sprintf("%s, %s: %s", clean(r.Request), ago(r.At.Time, now), clean(r.Reason))
}

// eventsLine says how many events came, and when the last one did.
func eventsLine(received int, last *api.Time, now time.Time) string {
	if last == nil || last.IsZero() {
		return "none since the daemon started"
	}
	return fmt.Sprintf("%d, the last %s", received, ago(last.Time, now))
}

// webhookLine says how webhooks do.
func webhookLine(s api.WebhookStatus, now time.Time) string {
	if !s.Verified {
		return clean(s.Address) + ", Notion has sent no token yet: dibs webhook"
	}
	line := "events: " + eventsLine(s.Received, &s.LastAt, now)
	if n := s.Edits + s.Polled; n > 0 {
		line += fmt.Sprintf("; told of %d %% of edits", 100*s.Edits/n)
	}
	if s.MedianSeconds > 0 {
		line += ", " + length(seconds(s.MedianSeconds)) + " after them"
	}
	return line
}
