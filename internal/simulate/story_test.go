package simulate_test

import (
	"strings"
	"testing"
	"time"

	"dibs/internal/simulate"
)

func tell(t *testing.T, o simulate.Options) simulate.Story {
	t.Helper()
	story, err := simulate.Tell(o)
	if err != nil {
		t.Fatal(err)
	}
	return story
}

// heard returns what the agents were told, in order.
func heard(s simulate.Story) (all []string) {
	for _, e := range s.Events {
		if answer, ok := strings.CutPrefix(e.What, "is told: "); ok {
			all = append(all, e.Who+" "+answer)
		}
	}
	return all
}

// Whatever the seed, one agent wins the race, keeps the task for its lease, and loses it then to
// the other one.
func TestStory(t *testing.T) {
	winners := make(map[string]bool)
	for seed := range uint64(20) {
		o := options()
		o.Seed = seed
		story := tell(t, o)
		answers := heard(story)
		if len(answers) != 5 {
			t.Fatalf("seed %d: %d answers: %q", seed, len(answers), answers)
		}
		winner, loser := "Sandman", "Oracle"
		if answers[0] == "Oracle granted" || answers[1] == "Oracle granted" {
			winner, loser = loser, winner
		}
		winners[winner] = true
		race := strings.Join(answers[:2], "\n")
		for _, want := range []string{winner + " granted", loser + " lost_race: " + winner + " has it"} {
			if !strings.Contains(race, want) {
				t.Errorf("seed %d: the race ended with %q, want %q in it", seed, race, want)
			}
		}
		later := strings.Join(answers[2:], "\n")
		if want := loser + " held: " + winner + " has it\n" + loser + " granted\n" + winner + " claim_lost: it is " + loser + "'s now"; later != want {
			t.Errorf("seed %d: after the race: %q, want %q", seed, later, want)
		}
		last := story.Events[len(story.Events)-1].AtSeconds
		if lease := (30 * time.Minute).Seconds(); last < lease {
			t.Errorf("seed %d: it was over after %vs, before the lease of %vs", seed, last, lease)
		}
	}
	if len(winners) != 2 {
		t.Errorf("only %v ever won", winners)
	}
}

// The picture has each request, and what the page showed.
func TestStoryIsDrawn(t *testing.T) {
	story := tell(t, options())
	d := read(t, story.Draw())
	all := strings.Join(d.texts, "\n")
	for _, want := range []string{"Sandman", "Oracle", "OPEN", "granted", "10 minutes later", "wakes up", "seed 1"} {
		if !strings.Contains(all, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	for _, answer := range heard(story) {
		if _, told, _ := strings.Cut(answer, " "); !strings.Contains(all, told) {
			t.Errorf("the picture does not say %q", told)
		}
	}
	requests := 0
	for _, e := range story.Events {
		if strings.HasPrefix(e.What, "reads") || strings.HasPrefix(e.What, "writes") {
			requests++
		}
	}
	if got := d.count["circle"]; got != requests || requests < 11 {
		t.Errorf("%d requests are drawn of %d", got, requests)
	}
}

// What cannot be told is refused.
func TestNoStory(t *testing.T) {
	o := options()
	o.Settles = []time.Duration{time.Second}
	if _, err := simulate.Tell(o); err == nil || !strings.Contains(err.Error(), "want one longer than the write window 2s") {
		t.Errorf("without a settle wait that the daemon takes: %v", err)
	}
	o = options()
	o.Spread = 24 * time.Hour
	if _, err := simulate.Tell(o); err == nil || !strings.Contains(err.Error(), "let them start closer together") {
		t.Errorf("with agents that never meet: %v", err)
	}
}
