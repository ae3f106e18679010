package journal

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rewrite translates a statement from SQLite's dialect to PostgreSQL's: it numbers parameters,
// and puts the schema before the names of tables, because a pooler may lose a search_path.
func (p *postgres) rewrite(statement string) string {
	if made, ok := p.rewritten.Load(statement); ok {
		return made.(string)
	}
	var out strings.Builder
	params, before := 0, ""
	for _, word := range words().FindAllString(statement, -1) {
		switch {
		case word == "?":
			params++
			word = "$" + strconv.Itoa(params)
		case strings.HasPrefix(word, "?"):
			word = "$" + word[1:]
		case beforeTable[strings.ToUpper(before)] && slices.Contains(tables(), word):
			out.WriteString(p.space + ".")
		}
		out.WriteString(word)
		if strings.TrimSpace(word) != "" {
			before = word
		}
	}
	made := out.String()
	p.rewritten.Store(statement, made)
	return made
}

var (
	// words splits a statement into quoted texts, names, parameters, and single characters.
	words = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`'(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_]*|\?\d*|\s+|.`)
	})
	// beforeTable has the words that the name of a table may follow.
	beforeTable = map[string]bool{"FROM": true, "JOIN": true, "INTO": true, "UPDATE": true}
	// tables has the names of all tables.
	tables = sync.OnceValue(func() (names []string) {
		for _, found := range regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`).FindAllStringSubmatch(sqliteSchema, -1) {
			names = append(names, found[1])
		}
		return names
	})
)

// storable replaces what PostgreSQL refuses in texts: zero bytes, and bytes that are not UTF-8.
// Callers may ask for any text; one with such bytes matches nothing that is stored.
func storable(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		v := reflect.ValueOf(arg)
		if data, ok := arg.([]byte); ok && data != nil {
			v = reflect.ValueOf(string(data))
		}
		if v.Kind() == reflect.String {
			out[i] = strings.ReplaceAll(strings.ToValidUTF8(v.String(), "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return out
}
