package arbiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whatever members want, they get together what there is, nobody more than it wants, nobody
// less than another one that wants no more, and something is left for whoever comes next.
func TestDivide(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3_000 {
		wants, most := make(map[string]int), 1+random.IntN(Slots+10)
		wanted := 0
		for i := range random.IntN(80) {
			n := 1 + random.IntN(most)
			wants[fmt.Sprint("member ", i)], wanted = n, wanted+n
		}
		spare := random.IntN(Slots + 1)
		shares := divide(wants, spare)
		sum := 0
		for a, n := range shares {
			sum += n
			if n < 0 || n > wants[a] {
				t.Fatalf("%v, spare %d: %s gets %d", wants, spare, a, n)
			}
			for b, m := range shares {
				if n < wants[a] && m > n+1 {
					t.Fatalf("%v, spare %d: %s gets %d, and %s gets %d", wants, spare, a, n, b, m)
				}
			}
		}
		left := min(spare, Slots/(len(wants)+1))
		if want := min(wanted, Slots-left); sum != want {
			t.Fatalf("%v, spare %d: together they get %d, want %d", wants, spare, sum, want)
		}
		for a, n := range divide(wants, spare) {
			if shares[a] != n {
				t.Fatalf("%v, spare %d: %s gets %d, and then %d", wants, spare, a, shares[a], n)
			}
		}
	}
}

// The smallest share is enough for a claim, however low the rate is.
func TestLeast(t *testing.T) {
	for _, rate := range []float64{0.05, 0.1, 0.5, 1, 2.5, 3, 10, 500} {
		if n := least(rate); n < 4 || n > Slots || float64(n)*rate < 3 && n < Slots {
			t.Errorf("at %v a second, the least is %d slots", rate, n)
		}
	}
}
