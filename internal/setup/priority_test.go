package setup_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The options of a column of priorities are understood by their words, P0 to P5 among them; what is
// not certain is left alone.
func TestGuessedPriorities(t *testing.T) {
	for name, tt := range map[string]struct {
		options []string
		want    string // JSON
		left    string // in a note
	}{
		"dibs's own":   {[]string{"low", "medium", "high", "critical"}, `{}`, ""},
		"English":      {[]string{"Low", "Medium", "High", "Urgent"}, `{"critical":"Urgent","high":"High","low":"Low","medium":"Medium"}`, ""},
		"five":         {[]string{"Lowest", "Low", "Medium", "High", "Highest"}, `{"critical":"Highest","high":"High","low":["Lowest","Low"],"medium":"Medium"}`, ""},
		"German":       {[]string{"Dringend", "Hoch", "Mittel", "Niedrig"}, `{"critical":"Dringend","high":"Hoch","low":"Niedrig","medium":"Mittel"}`, ""},
		"German, long": {[]string{"Hohe Priorität", "Mittlere Priorität", "Geringe Priorität", "Keine"}, `{"high":"Hohe Priorität","low":"Geringe Priorität","medium":"Mittlere Priorität"}`, ""},
		"French":       {[]string{"Très haute", "Haute", "Moyenne", "Basse"}, `{"critical":"Très haute","high":"Haute","low":"Basse","medium":"Moyenne"}`, ""},
		"Spanish":      {[]string{"Urgente", "Alta", "Media", "Baja"}, `{"critical":"Urgente","high":"Alta","low":"Baja","medium":"Media"}`, ""},
		"emoji":        {[]string{"🧊 Low", "🔥 High", "1️⃣ – Critical"}, `{"critical":"1️⃣ – Critical","high":"🔥 High","low":"🧊 Low"}`, ""},
		"P0 to P3":     {[]string{"P3", "P0", "P1", "P2"}, `{"critical":"P0","high":"P1","low":"P3","medium":"P2"}`, ""},
		"P0 to P4":     {[]string{"P0", "P1", "P2", "P3", "P4"}, `{"critical":"P0","high":"P1","low":["P3","P4"],"medium":"P2"}`, ""},
		"words count":  {[]string{"P1 – High", "P2 – Medium", "P3 – Low"}, `{"high":"P1 – High","low":"P3 – Low","medium":"P2 – Medium"}`, ""},
		"one more":     {[]string{"Alta", "Baja", "Algún día"}, `{"high":"Alta","low":"Baja"}`, "Algún día"},

		"no priorities":   {[]string{"Media", "Print", "Web"}, `{}`, "Media, Print, Web"},
		"versions":        {[]string{"Major", "Minor", "Patch"}, `{}`, "Major, Minor, Patch"},
		"two questions":   {[]string{"Wichtig", "Dringend", "Wichtig & dringend"}, `{}`, "Wichtig, Dringend, Wichtig & dringend"},
		"its opposite":    {[]string{"Urgent", "Important", "Not urgent"}, `{}`, "Urgent, Important, Not urgent"},
		"estimates":       {[]string{"1", "2", "3", "keine"}, `{}`, "1, 2, 3"},
		"stars":           {[]string{"★", "★★", "★★★"}, `{}`, "★, ★★, ★★★"},
		"levels in words": {[]string{"Prio 1", "Prio 2"}, `{}`, "Prio 1, Prio 2"},
		"a gap":           {[]string{"P0", "P2", "P3"}, `{"critical":"P0","low":"P3","medium":"P2"}`, ""},
		"twice the same":  {[]string{"P1", "🔥 P1", "P2"}, `{"high":["P1","🔥 P1"],"medium":"P2"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.Given.Tasks = w.database("Backlog", map[string]any{
					"Name": of("title"), "status": of("select", "OPEN"), "claimed_by": of("rich_text"), "claimed_at": of("date"), "priority": of("select", tt.options...),
				})
				p := w.plan()
				got, err := json.Marshal(slices.Concat(p.Guesses, p.Adopted))
				if err != nil || string(got) != tt.want {
					w.Errorf("guesses %s, %v, want %s", got, err, tt.want)
				}
				c := p.Config.Tasks.Priorities
				for _, g := range slices.Concat(p.Guesses, p.Adopted) {
					names := map[string][]string{"critical": c.Critical, "high": c.High, "medium": c.Medium, "low": c.Low}[g.Key]
					if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, g.Name) }) {
						w.Errorf("the configuration does not name %s: %+v", g, c)
					}
				}
				note := strings.Join(p.Notes, "\n")
				if told := strings.Contains(note, "nothing says what priority "+tt.left+" is, so tasks with it are offered last"); told != (tt.left != "") {
					w.Errorf("notes %q, want %q to be left", note, tt.left)
				}
				w.apply(p)
				w.again(p)
				if again := w.plan(); len(again.Steps)+len(again.Guesses)+len(again.Problems) > 0 {
					w.Errorf("a second run would %v, guess %v, problems %q", again.Steps, again.Guesses, again.Problems)
				}
			})
		})
	}
}

// Names that are given are not guessed, and belong to one priority.
func TestGivenPriorities(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Backlog", map[string]any{
			"Name": of("title"), "status": of("select", "OPEN"), "claimed_by": of("rich_text"), "claimed_at": of("date"),
			"priority": of("select", "Critical", "Hoch", "Mittel", "Niedrig", "Irgendwann"),
		})
		w.options.Map = map[string]string{"high": "Critical, Hoch", "low": "Irgendwann"}
		p := w.plan()
		got := p.Config.Tasks.Priorities
		if diff := cmp.Diff([][]string{{}, {"Critical", "Hoch"}, {"Mittel"}, {"Irgendwann"}}, [][]string{got.Critical, got.High, got.Medium, got.Low}); diff != "" || len(p.Problems) > 0 {
			w.Errorf("priorities (-want +got):\n%s\nproblems %q", diff, p.Problems)
		}
		if note := strings.Join(p.Notes, "\n"); !strings.Contains(note, "what priority Niedrig is,") {
			w.Errorf("notes %q", note)
		}
		w.options.Map = map[string]string{"high": "Hohc", "low": "Hoch", "medium": "hoch"}
		said := strings.Join(w.plan().Problems, "\n")
		for _, part := range []string{
			`property "priority" has no option "Hohc", which --map gives as high: its options are Critical, Hoch, Mittel, Niedrig, Irgendwann`,
			`--map gives "Hoch" as medium and as low: give it once`,
		} {
			if !strings.Contains(said, part) {
				w.Errorf("problems %q, want %q", said, part)
			}
		}
	})
}
