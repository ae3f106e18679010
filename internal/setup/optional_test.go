package setup_test

import (
	"testing"

	"dibs/config"
)

// Optional statuses are added if they are asked for, and only then.
func TestOptionalStatuses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Backlog", map[string]any{"Name": of("title")})
		p := w.plan()
		w.apply(p)
		if s := p.Config.Tasks.Statuses; s.Review != "" || s.Failed != "" {
			w.Errorf("without being asked: %+v", s)
		}
		w.again(p)

		w.options.Replace = true
		w.options.Map = map[string]string{"review": "REVIEW", "failed": "Given up"}
		if p := w.plan(); len(p.Problems) > 0 || p.Steps[0].String() != "extend tasks: status by REVIEW, Given up" {
			w.Errorf("problems %q, steps %v", p.Problems, p.Steps)
		}
		w.options.Map = map[string]string{"review": "REVIEW", "failed": ""}
		p = w.plan()
		w.apply(p)
		if s := p.Config.Tasks.Statuses; s.Review != "REVIEW" || s.Failed != "" {
			w.Errorf("the statuses are %+v", s)
		}
		if got := w.group(w.options.Given.Tasks, p.Config.Tasks.Properties.Status, "REVIEW"); got != "In progress" {
			w.Errorf("REVIEW is in group %q", got)
		}
		c, err := config.Load(config.Options{File: p.File, FileOnly: true})
		if err != nil || c.Tasks.Statuses.Review != "REVIEW" {
			w.Errorf("the file says %+v, %v", c.Tasks.Statuses, err)
		}
		w.again(p)
		if again := w.plan(); len(again.Steps) > 0 {
			w.Errorf("a second run would %v, problems %q", again.Steps, again.Problems)
		}
	})
}
