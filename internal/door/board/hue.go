package board

import (
	"hash/fnv"
	"strings"
	"sync"
)

// hues is the number of colours for names. None of them looks like an alarm.
const hues = 12

// maxNames limits the names whose colour is remembered.
const maxNames = 1000

// colours gives names colours, on all pages the same. A name gets the colour that fits it, or the
// next one that fewer names have: so twelve agents have twelve colours.
var colours struct {
	sync.Mutex
	of   map[string]int
	used [hues]int
}

// hue returns the colour of a name, 1 to hues; zero for no name.
func hue(name string) int {
	if name == "" {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	fits := int(h.Sum32() % hues)
	colours.Lock()
	defer colours.Unlock()
	if is, ok := colours.of[name]; ok {
		return is + 1
	}
	if len(colours.of) == maxNames {
		return fits + 1
	}
	best := fits
	for i := range hues {
		if at := (fits + i) % hues; colours.used[at] < colours.used[best] {
			best = at
		}
	}
	if colours.of == nil {
		colours.of = make(map[string]int)
	}
	colours.of[name] = best
	colours.used[best]++
	return best + 1
}

// initials returns the two characters on an agent's mark: of a name in parts, those that begin the
// first and the last. The modules do the same.
func initials(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_.@", r) })
	switch len(parts) {
	case 0:
		return "?"
	case 1:
		return string([]rune(parts[0])[:min(2, len([]rune(parts[0])))])
	}
	return string([]rune(parts[0])[:1]) + string([]rune(parts[len(parts)-1])[:1])
}
