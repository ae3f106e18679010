package setup

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"dibs/internal/task"
)

// rankWords are what priorities are called. A word that is no priority elsewhere, or that means
// several, such as Major, is not among them.
var rankWords = wordsOf(map[task.Priority]string{
	task.Critical: "critical, urgent, highest, very high, emergency, immediate, asap, blocker, " +
		"kritisch, kritische, dringend, sofort, höchste, sehr hoch, sehr hohe, " +
		"critique, urgente, très haute, très élevée, la plus haute, " +
		"crítica, crítico, muy alta, muy alto, muito alta, kritiek, zeer hoog, krytyczny, krytyczne, pilne, " +
		"критический, срочно, 緊急, 最高, 긴급, 紧急",
	task.High: "high, important, hoch, hohe, wichtig, haute, élevée, élevé, importante, alta, alto, " +
		"hoog, hoge, wysoki, wysoka, высокий, высокая, 高, 高い, 높음",
	task.Medium: "medium, normal, med, mid, moderate, mittel, mittlere, " +
		"moyenne, moyen, normale, media, medio, média, médio, normaal, gemiddeld, średni, średnia, " +
		"средний, средняя, обычный, 中, 普通, 중간, 보통",
	task.Low: "low, lowest, very low, niedrig, niedrige, niedrigste, gering, geringe, sehr niedrig, " +
		"basse, faible, très basse, très faible, la plus basse, baja, bajo, muy baja, muy bajo, " +
		"baixa, baixo, muito baixa, laag, lage, niski, niska, низкий, низкая, 低, 低い, 낮음",
	task.None: "none, no, n a, keine, kein, ohne, aucune, aucun, sans, ninguna, ninguno, sin, " +
		"nenhuma, geen, brak, нет, なし, 없음, 无, 無",
})

func wordsOf(lists map[task.Priority]string) map[string]task.Priority {
	words := make(map[string]task.Priority)
	for p, list := range lists {
		for word := range strings.SplitSeq(list, ", ") {
			words[word] = p
		}
	}
	return words
}

// saysPriority reports whether a name has the word for priority in it, in nearly any language. In an
// option it says nothing of the rank: High priority, Prio 1.
func saysPriority(name string) bool {
	return slices.ContainsFunc([]string{"prio", "приор", "優先", "우선", "优先"}, func(stem string) bool {
		return strings.Contains(strings.ToLower(name), stem)
	})
}

// A level is an option of a scale of signs: P1, 3, ★★.
type level struct {
	scale rune // 'P', '#' for plain numbers, '★' or '!'; 0 for no level
	n     int
}

// option is an option of a column of priorities, as far as it is understood.
type option struct {
	name  string
	words []string
	rank  task.Priority
	named bool // rank is what a word says
	level level
}

// scale returns what the options of a column of priorities mean. Words count by themselves. Levels
// count only if all options are levels of one scale: P0 to P5, P1 to P5, 1 to 5 in ascending order,
// where the first is the most urgent, or one to five stars. It returns nothing, rather than
// something wrong, if one option says what another does and more, such as Urgent beside Not urgent,
// or if most say nothing.
func scale(options []string) map[string]task.Priority {
	var said, levels, unknown []option
	for _, name := range options {
		switch o := understood(name); {
		case o.named && o.rank == task.None:
		case o.named:
			said = append(said, o)
		case o.level.scale != 0:
			levels = append(levels, o)
		default:
			unknown = append(unknown, o)
		}
	}
	if len(said) == 0 && len(unknown) == 0 {
		return ladder(levels)
	}
	ranks := make(map[string]task.Priority)
	different := make(map[task.Priority]bool)
	for _, o := range said {
		ranks[o.name], different[o.rank] = o.rank, true
	}
	for _, o := range unknown {
		if slices.ContainsFunc(o.words, func(w string) bool { _, known := rankWords[w]; return known }) {
			return nil
		}
	}
	if len(different) < 2 && len(levels)+len(unknown) > 0 {
		return nil
	}
	return ranks
}

// understood reads one option. Signs and emoji beside its words do not matter, nor does a level
// before them: 1 – High.
func understood(name string) option {
	o := option{name: name, rank: task.None}
	var stars []rune
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '⭐', r == '🌟':
			r = '★'
		case unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		case unicode.IsMark(r): // of an emoji, such as 1️⃣
			return -1
		}
		if !unicode.IsSpace(r) && r != '☆' {
			stars = append(stars, r)
		}
		return ' '
	}, name)
	all := strings.Fields(clean)
	o.words = slices.DeleteFunc(slices.Clone(all), saysPriority)
	words := o.words
	if len(words) > 1 && levelOf(words[0], 'P').scale != 0 {
		words = words[1:]
	}
	if o.rank, o.named = rankOf(words); o.named {
		return o
	}
	switch {
	case len(o.words) == 1 && len(all) > 1:
		o.level = levelOf(o.words[0], 'P') // Prio 1 is P1
	case len(o.words) == 1:
		o.level = levelOf(o.words[0], '#')
	case len(all) == 0 && len(stars) > 0 && strings.ContainsRune("★!", stars[0]) && len(slices.Compact(slices.Clone(stars))) == 1:
		o.level = level{stars[0], len(stars)}
	}
	return o
}

// rankOf returns the rank of a phrase, or of words that all mean the same.
func rankOf(words []string) (task.Priority, bool) {
	if p, ok := rankWords[strings.Join(words, " ")]; ok {
		return p, true
	}
	found := task.None
	for i, word := range words {
		p, ok := rankWords[word]
		if !ok || p == task.None || i > 0 && p != found {
			return task.None, false
		}
		found = p
	}
	return found, len(words) > 0
}

// levelOf reads P1, or 1, which is a level of the given scale.
func levelOf(word string, plain rune) level {
	digit := strings.TrimPrefix(word, "p")
	if len(digit) != 1 || digit < "0" || digit > "9" {
		return level{}
	}
	if digit != word {
		plain = 'P'
	}
	return level{plain, int(digit[0] - '0')}
}

// rungs are the ranks of a scale by its length, the most urgent first.
var rungs = map[int][]task.Priority{
	3: {task.High, task.Medium, task.Low},
	4: {task.Critical, task.High, task.Medium, task.Low},
	5: {task.Critical, task.High, task.Medium, task.Low, task.Low},
}

// fromZero are the ranks from P0 on, of which a board need not have all.
var fromZero = []task.Priority{task.Critical, task.High, task.Medium, task.Low, task.Low, task.Low}

// ladder returns the ranks of levels that are all of one scale, each once and without a gap.
func ladder(levels []option) map[string]task.Priority {
	inOrder := slices.SortedStableFunc(slices.Values(levels), func(a, b option) int { return cmp.Compare(a.level.n, b.level.n) })
	if len(levels) < 2 {
		return nil
	}
	first, ranks := inOrder[0].level, rungs[len(levels)]
	switch {
	case first.n == 0 && first.scale == 'P':
		ranks = fromZero[:min(len(levels), len(fromZero))]
	case first.n != 1:
		return nil
	}
	if len(ranks) != len(levels) {
		return nil
	}
	means := make(map[string]task.Priority)
	for i, o := range inOrder {
		if o.level != (level{first.scale, first.n + i}) || first.scale == '#' && levels[i].level != o.level {
			return nil // a plain number may count up or down: the board's order has to say so
		}
		if first.scale == '★' || first.scale == '!' {
			i = len(levels) - 1 - i
		}
		means[o.name] = ranks[i]
	}
	return means
}
