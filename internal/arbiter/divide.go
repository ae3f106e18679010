package arbiter

import (
	"maps"
	"math"
	"slices"
)

// Slots is into how many slots the budget of a minute is divided.
const Slots = 60

// least is how many slots a member has however little it needs: enough for the requests of
// a claim, and for what is read when nothing happens. rate is in requests a second, and so
// what one slot allows in a minute.
func least(rate float64) int { return min(max(4, int(math.Ceil(3/rate))), Slots) }

// divide says how many slots each member is to have, of those that want so many: what it
// wants, as long as it is no more than any other gets that wants more. So many are left for
// whoever comes next, or as many as it would get. It depends on nothing else, so all members
// come to the same.
func divide(wants map[string]int, spare int) map[string]int {
	shares := make(map[string]int, len(wants))
	left := Slots - min(spare, Slots/(len(wants)+1))
	members := slices.Sorted(maps.Keys(wants))
	for open := members; left > 0 && len(open) > 0; {
		open = slices.DeleteFunc(slices.Clone(open), func(m string) bool { return shares[m] >= wants[m] })
		for _, m := range open {
			if left > 0 {
				shares[m]++
				left--
			}
		}
	}
	return shares
}
