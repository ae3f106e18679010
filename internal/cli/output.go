package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
)

// print prints an answer: as JSON with --json, else for people. people's writer aligns columns
// separated by tabs.
func (a *app) print(answer any, people func(io.Writer)) error {
	if a.json {
		return writeJSON(a.stdout, answer)
	}
	var out bytes.Buffer
	aligned := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	people(aligned)
	if err := aligned.Flush(); err != nil {
		return err
	}
	_, err := a.stdout.Write(out.Bytes())
	return err
}

// say prints a remark on stderr, unless the output is JSON.
func (a *app) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// row prints a line of a table. Cells must not contain tabs or line ends, see clean.
func row(w io.Writer, cells ...string) {
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// writeJSON writes a document on one line. It also escapes the characters that could control a
// terminal and that JSON allows.
func writeJSON(w io.Writer, value any) error {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, r := range plain.String() {
		if r == '\n' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
