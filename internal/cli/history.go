package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dibs/internal/api"

	"github.com/spf13/cobra"
)

// Limits of --hours and --points. People see as many steps as fit beside the other columns.
const (
	maxHours             = 168
	minPoints, maxPoints = 10, 500
	shownPoints          = 48
	besideBars           = 34
)

func (a *app) historyCommand() *cobra.Command {
	hours, points := 6, 0
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show what happened in the last hours, as numbers and bars",
		Long: "Show what happened in the last hours: how many claims were granted, refused and lost, and tasks completed\n" +
			"and failed, how long tasks had been ready when they were granted (the median, and what nine of ten stayed\n" +
			"below), what agents used, and how many requests were sent to Notion. Each bar is a step of time, the last one still under\n" +
			"way; the bars of requests are full where the budget is used up.",
		Example: "  dibs history --hours 24\n  dibs history --hours 1 --points 60 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hours < 1 || hours > maxHours {
				return usagef("--hours %d: want 1 to %d, which is a week", hours, maxHours)
			}
			if cmd.Flags().Changed("points") && (points < minPoints || points > maxPoints) {
				return usagef("--points %d: want %d to %d", points, minPoints, maxPoints)
			}
			if points == 0 && !a.json {
				points = shownPoints
				if fits := width(a.stdout); fits > 0 {
					points = min(max(fits-besideBars, minPoints), maxPoints)
				}
			}
			daemon, err := a.daemon()
			if err != nil {
				return err
			}
			h, err := daemon.History(cmd.Context(), hours, points)
			if err != nil {
				return err
			}
			return a.list(h, func(t *table) { showHistory(t, h, time.Now()) })
		},
	}
	cmd.Flags().IntVar(&hours, "hours", hours, "how far to look back, at most 168")
	cmd.Flags().IntVar(&points, "points", 0, "how many steps at most, 10 to 500 (as many as fit; 72 with --json)")
	return cmd
}

func showHistory(t *table, h api.History, now time.Time) {
	t.head("WHAT", "TOTAL", "MOST", fmt.Sprintf("%s TO %s, %s EACH", clock(h.From.Time, now), clock(h.To.Time, now), length(seconds(float64(h.StepSeconds)))))
	add := func(name string, steps []int, full int) {
		total, most := 0, 0
		values := make([]float64, len(steps))
		for i, n := range steps {
			total, most, values[i] = total+n, max(most, n), float64(n)
		}
		t.add(plain(name), plain(fmt.Sprint(total)), plain(fmt.Sprint(most)), plain(bars(values, float64(max(most, full)))))
	}
	add("granted", h.Granted, 0)
	add("completed", h.Completed, 0)
	add("failed", h.Failed, 0)
	add("lost", h.Lost, 0)
	add("swept", h.Swept, 0)
	for _, code := range slices.Sorted(maps.Keys(h.Denied)) {
		add("refused: "+clean(strings.ReplaceAll(code, "_", " ")), h.Denied[code], 0)
	}
	wait := func(name string, steps []*float64) {
		most := 0.0
		values := make([]float64, len(steps))
		for i, s := range steps {
			if s != nil {
				values[i], most = *s, max(most, *s)
			}
		}
		t.add(plain(name), plain(""), plain(took(most)), plain(bars(values, most)))
	}
	wait("wait, half", h.WaitP50)
	wait("wait, nine of ten", h.WaitP90)
	if slices.ContainsFunc(h.Tokens, func(n int) bool { return n > 0 }) {
		add("tokens", h.Tokens, 0)
	}
	total, most := 0.0, 0.0
	for _, usd := range h.USD {
		total, most = total+usd, max(most, usd)
	}
	if total > 0 {
		t.add(plain("USD"), plain(fmt.Sprintf("%.2f", total)), plain(fmt.Sprintf("%.2f", most)), plain(bars(h.USD, most)))
	}
	add("requests", h.Requests, h.Budget)
	t.add(plain("budget"), plain(""), plain(fmt.Sprint(h.Budget)), plain("requests a step"))
}

// bars draws each value as a character from empty to full; blank for zero or less.
func bars(values []float64, full float64) string {
	heights := []rune("▁▂▃▄▅▆▇█")
	var out strings.Builder
	for _, v := range values {
		if v <= 0 || full <= 0 {
			out.WriteByte(' ')
			continue
		}
		out.WriteRune(heights[min(int(v/full*float64(len(heights))), len(heights)-1)])
	}
	return out.String()
}
