package markup

import "strings"

// mostWork bounds the work for the Markdown of a page, in about as many nanoseconds. The converter's
// time grows with the square of some texts' length, or with its cube.
const mostWork = 300_000_000

// limit returns where the part of a page begins that is not converted, since with it the work could
// exceed mostWork: a line, or the end of the page. It counts what each line can cost at worst:
//   - a mark may have the converter read all of its paragraph;
//   - a line may be compared with all blocks around it, once for each of them;
//   - in a table, each row has as many cells as the widest;
//   - an escaped bar in a cell is compared with all others of the page.
func limit(source string) int {
	const nested, cell, escaped = 4, 2000, 4
	var length, marks, bars int // of the lines that may be one paragraph; bars of its widest line
	var depth, escapes, work int
	for at := 0; at < len(source); {
		end := len(source)
		if i := strings.IndexByte(source[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := source[at:end]
		if begins(line) {
			work += marks * length
			length, marks, bars = 0, 0, 0
		}
		length += len(line)
		for _, mark := range "[]()<*_~`|" {
			marks += strings.Count(line, string(mark))
		}
		bars = max(bars, strings.Count(line, "|"))
		escapes += strings.Count(line, `\|`)
		depth = max(depth, nesting(line))
		work += nested*depth*depth + cell*bars
		if work+marks*length+escaped*escapes*escapes > mostWork {
			return at
		}
		at = end
	}
	return len(source)
}

// begins reports whether a line cannot belong to the paragraph of the line before. It need not know
// all such lines.
func begins(line string) bool {
	line = strings.TrimRight(line, " \t\r\n")
	mark, text, _ := strings.Cut(line, " ")
	heading := mark != "" && len(mark) <= 6 && strings.Trim(mark, "#") == ""
	return line == "" || text != "" && (mark == "-" || heading)
}

// nesting returns in how many quotes and items of lists a line can be at most: each takes a mark, or
// two columns of indentation.
func nesting(line string) int {
	columns := 0
	for i, c := range line {
		switch {
		case c == ' ':
			columns++
		case c == '\t':
			columns += 4
		case c == '>':
			columns += 2
		case '0' <= c && c <= '9':
		case strings.ContainsRune("-+*.)", c) && (i+1 == len(line) || strings.IndexByte(" \t\r\n", line[i+1]) >= 0):
			columns += 2
		default:
			return columns / 2
		}
	}
	return columns / 2
}
