package daemon_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dibs/internal/testkit"
)

var (
	meshSeed  = flag.Uint64("seed", 0, "the seed of the first mesh to run; 0 for 1 and those behind it")
	meshSeeds = flag.Uint64("seeds", 0, "how many meshes to run; 0 for one with -seed, else a few, and a thousand with -long")
	meshLasts = flag.Duration("lasts", 0, "after how long no further mesh is begun with -long; 0 for never")
	meshChild = flag.Bool("meshchild", false, "tell a test that runs many meshes how they ended")
)

// TestMesh runs whole meshes, each from its seed: daemons and their heirs, the emulator, agents,
// people and faults, in one virtual world, and then a referee. With -long it runs a thousand, in
// processes of their own, and prints what they came to; -seed 7 -v runs one and prints its trace.
//
// The seed draws the settings, who does what when, what goes wrong, when a daemon is killed, and
// the time of each request. One to three daemons have journals of their own; a killed one has an
// heir on a copy of its journal within four minutes. After 20 minutes to an hour the troubles end,
// and the referee checks that no two agents were trusted to have one task at once, no claim was lost
// for no reason, each grant and finish is on record once and each entry in Notion once, nothing was
// told twice or lost, no page shows a claim, and every free task can be had. It excuses what package
// claim says is not guaranteed. Members that share a journal are in TestTrial, daemons that stand
// still and clocks that jump in TestChaos.
//
// A seed does not decide everything: goroutines that become runnable at one virtual moment run in an
// order of Go's scheduler. .ci/replay leaves that out, by go build -overlay, for TestMeshReplays.
// Of seeds 1 to 1615 nine failed: one because a poll held a mutex while it asked Notion, the others
// by mistakes of the referee.
func TestMesh(t *testing.T) {
	testkit.SkipUnderRace(t)
	first, n := max(*meshSeed, 1), *meshSeeds
	seeds := []uint64{1, 6} // which take least
	switch {
	case n > 0:
	case *meshSeed > 0:
		n = 1
	case *long:
		n = 1000
	case testing.Short():
		n = 1
	}
	if *long && n > 1 && !*meshChild {
		manyMeshes(t, first, n)
		return
	}
	if n > 0 {
		seeds = seeds[:0]
		for seed := first; seed < first+n; seed++ {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			began := time.Now()
			out := runMesh(t, seed, meshOptions{})
			if testing.Verbose() && !*meshChild && *meshSeed > 0 {
				t.Logf("\n%s", out.trace)
			}
			t.Logf("seed %d: %v of virtual time in %v, trace %s of %d lines; %s", seed, out.simulated.Round(time.Second),
				time.Since(began).Round(time.Millisecond), out.trace.hash(), len(out.trace.lines), out.did())
			if len(out.wrong) > 0 {
				t.Errorf("-seed %d:\n%s", seed, out.story())
			}
			if *meshChild {
				line, _ := json.Marshal(told{seed, out.simulated, len(out.wrong), out.counts})
				fmt.Printf("\n%s%s\n", mark, line)
			}
		})
	}
}

// mark begins the lines in which a child tells of its meshes, as JSON of told.
const mark = "mesh: "

type told struct {
	Seed      uint64
	Simulated time.Duration
	Wrong     int
	Counts    map[string]int
}

// manyMeshes runs meshes in other processes, as many at a time as there are processors.
func manyMeshes(t *testing.T, first, n uint64) {
	const chunk = 5
	began := time.Now()
	chunks := make(chan uint64)
	var mu sync.Mutex
	var all []told
	var parts sync.WaitGroup
	for range runtime.NumCPU() {
		parts.Go(func() {
			for from := range chunks {
				came, output := someMeshes(t, from, min(chunk, first+n-from))
				mu.Lock()
				all = append(all, came...)
				if output != "" {
					t.Errorf("%s", output)
				}
				mu.Unlock()
			}
		})
	}
	for from := first; from < first+n && (*meshLasts == 0 || time.Since(began) < *meshLasts); from += chunk {
		chunks <- from
	}
	close(chunks)
	parts.Wait()
	var simulated time.Duration
	failed, counts := []uint64{}, make(map[string]int)
	for _, m := range all {
		simulated += m.Simulated
		for what, times := range m.Counts {
			counts[what] += times
		}
		if m.Wrong > 0 {
			failed = append(failed, m.Seed)
		}
	}
	slices.Sort(failed)
	fmt.Printf("%d meshes from seed %d: %v of virtual time in %v; seeds that failed: %v\n%s\n", len(all), first,
		simulated.Round(time.Minute), time.Since(began).Round(time.Second), failed, outcome{counts: counts}.did())
}

// someMeshes runs meshes in another process. The output is empty if all is as it should be.
func someMeshes(t *testing.T, first, n uint64) (came []told, output string) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMesh$", "-test.timeout=30m", "-meshchild",
		fmt.Sprint("-seed=", first), fmt.Sprint("-seeds=", n))
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	out, err := cmd.CombinedOutput()
	for line := range bytes.Lines(out) {
		var m told
		if rest, ok := bytes.CutPrefix(line, []byte(mark)); ok && json.Unmarshal(rest, &m) == nil {
			came = append(came, m)
		}
	}
	if err != nil || len(came) != int(n) {
		output = fmt.Sprintf("seeds %d to %d: %v\n%s", first, first+n-1, err, out[:min(len(out), 100_000)])
	}
	return came, output
}

// did says what happened how often.
func (o outcome) did() string {
	var did []string
	for _, what := range slices.Sorted(maps.Keys(o.counts)) {
		did = append(did, fmt.Sprint(o.counts[what], " ", what))
	}
	return strings.Join(did, ", ")
}

// story is what went wrong, with what the trace has of the claims in question.
func (o outcome) story() string {
	var out strings.Builder
	for _, what := range o.wrong {
		fmt.Fprintln(&out, what)
	}
	seen := make(map[string]bool)
	for _, id := range ulids.FindAllString(out.String(), 6) {
		if !seen[id] {
			seen[id] = true
			fmt.Fprintf(&out, "\nwhat has to do with %s:\n%s", id, o.trace.about(id))
		}
	}
	return out.String()
}

// TestMeshReplays runs a seed twice, and compares the traces. With the runtime of .ci/replay they
// have to be the same. With Go's own it says how far they agree: goroutines that become runnable
// at one virtual moment run in any order.
func TestMeshReplays(t *testing.T) {
	testkit.SkipUnderRace(t)
	if !*long && !replays {
		t.Skip("takes its time, and cannot demand much without .ci/replay")
	}
	seeds := []uint64{max(*meshSeed, 1)}
	if *long {
		seeds = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	}
	same := 0
	for _, seed := range seeds {
		a, b := runMesh(t, seed, meshOptions{}).trace, runMesh(t, seed, meshOptions{}).trace
		if a.hash() == b.hash() {
			same++
			continue
		}
		i := 0
		for i < min(len(a.lines), len(b.lines)) && a.lines[i] == b.lines[i] {
			i++
		}
		said := fmt.Sprintf("the runs of seed %d agree in %d of %d lines; then\n%.200s\n%.200s", seed, i, len(a.lines), a.line(i), b.line(i))
		if replays {
			t.Error(said)
		} else {
			t.Log(said)
		}
		if i == 0 {
			t.Errorf("seed %d does not decide what the mesh is like", seed)
		}
	}
	t.Logf("%d of %d seeds have the same trace twice", same, len(seeds))
}
