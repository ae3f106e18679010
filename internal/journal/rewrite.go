package journal

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rewrite makes a statement as SQLite takes it one as PostgreSQL does: parameters have
// numbers, and tables are named with their schema, for a pooler may keep no search_path.
func (p *postgres) rewrite(statement string) string {
	if made, ok := p.rewritten.Load(statement); ok {
		return made.(string)
	}
	var out strings.Builder
	params, before := 0, ""
	for _, word := range words.FindAllString(statement, -1) {
		switch {
		case word == "?":
			params++
			word = "$" + strconv.Itoa(params)
		case strings.HasPrefix(word, "?"):
			word = "$" + word[1:]
		case beforeTable[strings.ToUpper(before)] && slices.Contains(tables, word):
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
	// words splits a statement: into texts in quotes, names, parameters, and single characters.
	words = regexp.MustCompile(`'(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_]*|\?\d*|\s+|.`)
	// beforeTable is after which words the name of a table stands.
	beforeTable = map[string]bool{"FROM": true, "JOIN": true, "INTO": true, "UPDATE": true}
	tableNames  = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)
	// tables is the names of all tables.
	tables = func() (names []string) {
		for _, found := range tableNames.FindAllStringSubmatch(sqliteSchema, -1) {
			names = append(names, found[1])
		}
		return names
	}()
)

// storable makes texts that PostgreSQL refuses, which hold a zero or are not in UTF-8, ones
// that it takes. A caller may ask for anything; nothing that was stored is found by it.
func storable(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
			out[i] = strings.ReplaceAll(strings.ToValidUTF8(v.String(), "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return out
}
