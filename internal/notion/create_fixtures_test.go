package notion_test

import (
	"context"
	"errors"

	"dibs/internal/outbox/creation"
	"dibs/internal/task"
)

// createScenes are about tasks that are made.
var createScenes = []scene{{
	name: "create",
	play: func(s *stage) {
		tasks := s.opened()
		for _, draft := range []task.Draft{
			{Title: "Plain", Priority: "high", For: "Oracle"},
			{Title: "With content", Body: "# Plan\n- one\n", Fields: []task.Field{{Name: "claim_timeout_minutes", Values: []string{"45"}}}},
		} {
			plan, err := tasks.Plan(s.Context(), draft, nobody{})
			if err != nil {
				s.Fatal(err)
			}
			made, err := plan.Create(s.Context(), "01JYSAFZ0D"+draft.Title[:1])
			if err != nil || made.Task.Title != draft.Title || made.Task.Status != task.Open || made.Task.ClaimedBy != draft.For || made.At.IsZero() {
				s.Errorf("%s: %+v, %v", draft.Title, made, err)
			}
			found, err := tasks.Find(s.Context(), creation.Sought{ID: "01JYSAFZ0D" + draft.Title[:1], Title: draft.Title, Since: taped})
			if err != nil || len(found) != 1 || found[0].Task.ID != made.Task.ID {
				s.Errorf("%s is found as %+v, %v", draft.Title, found, err)
			}
		}
		// Another one's is none of ours.
		if found, err := tasks.Find(s.Context(), creation.Sought{ID: "01JYSAFZ0DX", Title: "Plain", Since: taped}); err != nil || len(found) > 0 {
			s.Errorf("another id finds %+v, %v", found, err)
		}
	},
}}

// nobody finds nothing that a draft names.
type nobody struct{}

func (nobody) Person(context.Context, string) (string, error) { return "", errors.New("nobody") }

func (nobody) Named(context.Context, string) (task.ID, error) { return "", errors.New("nothing") }
