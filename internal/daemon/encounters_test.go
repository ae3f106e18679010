package daemon_test

import (
	"maps"
	"slices"
	"testing"

	"dibs/internal/notion/emulator"
)

// encounter is a write and its fate.
type encounter struct{ write, fate string }

// aspects returns the aspects of an encounter that a sample must cover.
type aspects func(encounter) []any

// singly covers each write and each fate once.
func singly(e encounter) []any { return []any{"write " + e.write, "fate " + e.fate} }

// pairwise covers each pair of a write, an answer, and the time at which the write takes effect. An
// answer and a landing make a fate, so each fate is covered, too.
func pairwise(e encounter) []any {
	f := fates[e.fate]
	return append(singly(e),
		[2]string{"answer " + f.answer, "write " + e.write},
		[2]string{"landing " + f.landing, "write " + e.write},
		[2]string{"answer " + f.answer, "landing " + f.landing})
}

// encounters returns all possible ones, always in the same order.
func encounters() []encounter {
	var all []encounter
	for _, fate := range slices.Sorted(maps.Keys(fates)) {
		for _, name := range slices.Sorted(maps.Keys(writes)) {
			if writes[name].entry != nil && fates[fate].fault.Kind == emulator.NotApplied {
				continue // the answer to an acknowledged creation has the new page's id
			}
			all = append(all, encounter{name, fate})
		}
	}
	return all
}

// sampleOf returns the encounters to play: pairwise, singly with -short, all with -long.
func sampleOf(all []encounter) []encounter {
	switch {
	case *long:
		return all
	case testing.Short():
		return covering(all, singly)
	}
	return covering(all, pairwise)
}

// covering returns a sample that covers every aspect. Greedily, it takes the encounter with the
// most missing aspects.
func covering(all []encounter, of aspects) []encounter {
	missing := make(map[any]bool)
	for _, e := range all {
		for _, aspect := range of(e) {
			missing[aspect] = true
		}
	}
	var sample []encounter
	for len(missing) > 0 {
		var best encounter
		most := 0
		for _, e := range all {
			n := 0
			for _, aspect := range of(e) {
				if missing[aspect] {
					n++
				}
			}
			if n > most {
				best, most = e, n
			}
		}
		for _, aspect := range of(best) {
			delete(missing, aspect)
		}
		sample = append(sample, best)
	}
	return sample
}

// TestSampleOfFates checks the samples independently: each pair of values of two factors among all
// encounters occurs in the sample.
func TestSampleOfFates(t *testing.T) {
	all := encounters()
	factors := map[string]func(encounter) string{
		"write":   func(e encounter) string { return e.write },
		"answer":  func(e encounter) string { return fates[e.fate].answer },
		"landing": func(e encounter) string { return fates[e.fate].landing },
		"fate":    func(e encounter) string { return e.fate },
	}
	check := func(sample []encounter, a, b string) {
		t.Helper()
		type pair struct{ a, b string }
		found := make(map[pair]bool)
		for _, e := range sample {
			found[pair{factors[a](e), factors[b](e)}] = true
		}
		for _, e := range all {
			if p := (pair{factors[a](e), factors[b](e)}); !found[p] {
				found[p] = true
				t.Errorf("no %s %q with %s %q", a, p.a, b, p.b)
			}
		}
	}
	pairs, short := covering(all, pairwise), covering(all, singly)
	check(pairs, "write", "answer")
	check(pairs, "write", "landing")
	check(pairs, "answer", "landing")
	check(pairs, "fate", "fate")
	check(short, "write", "write")
	check(short, "fate", "fate")
	if len(all) < 170 || len(pairs) > 2*len(all)/3 || len(short) > 20 {
		t.Errorf("%d encounters, %d in pairs, %d with -short", len(all), len(pairs), len(short))
	}
	t.Logf("%d encounters, %d in pairs, %d with -short", len(all), len(pairs), len(short))
}
