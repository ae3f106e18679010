package markup_test

import (
	"html"
	"strings"
	"testing"

	"dibs/internal/door/board/markup"
	"dibs/internal/testkit"
)

// TestHTML converts what others wrote: nothing of it is markup of theirs, is loaded, or runs.
func TestHTML(t *testing.T) {
	for source, want := range map[string]string{
		"# Top":                            "<h3>Top</h3>\n",
		"###### Low":                       "<h6>Low</h6>\n",
		"a <b>b</b> & c":                   "<p>a &lt;b&gt;b&lt;/b&gt; &amp; c</p>\n",
		"<script>x</script>":               "<p>&lt;script&gt;x&lt;/script&gt;</p>\n",
		"[x](https://e.org)":               `<p><a href="https://e.org" target="_blank" rel="noopener noreferrer">x</a></p>` + "\n",
		"[x](javascript:y)":                "<p>x</p>\n",
		"![x](https://e.org/p?a=1&b)":      `<p><a href="https://e.org/p?a=1&amp;b" target="_blank" rel="noopener noreferrer">Image: x</a></p>` + "\n",
		"![x](javascript:y)":               "<p>Image: x</p>\n",
		"[x](/sweep)":                      "<p>x</p>\n",
		"https://e.org":                    `<p><a href="https://e.org" target="_blank" rel="noopener noreferrer">https://e.org</a></p>` + "\n",
		"- [x] done":                       "<ul>\n<li><span class=\"todo\" role=\"img\" aria-label=\"done:\">☑</span> done</li>\n</ul>\n",
		"[x](data:image/svg+xml;base64,a)": "<p>x</p>\n",
		"<https://e.org/a?b&c>":            `<p><a href="https://e.org/a?b&amp;c" target="_blank" rel="noopener noreferrer">https://e.org/a?b&amp;c</a></p>` + "\n",
		"www.e.org":                        `<p><a href="http://www.e.org" target="_blank" rel="noopener noreferrer">www.e.org</a></p>` + "\n",
		"<smb://host/share>":               "<p>smb://host/share</p>\n",
		"<ms-msdt:/id>":                    "<p>ms-msdt:/id</p>\n",
		"<tel:+491234>":                    "<p>tel:+491234</p>\n",
		"ftp://e.org and a@e.org":          "<p>ftp://e.org and a@e.org</p>\n",
		"<mailto:a@e.org> <a@e.org>":       "<p>mailto:a@e.org a@e.org</p>\n",
		"![x](ftp://e.org)":                "<p>Image: x</p>\n",
		"[x][y]\n\n[y]: https://e.org":     "<p>[x][y]</p>\n" + `<p>[y]: <a href="https://e.org" target="_blank" rel="noopener noreferrer">https://e.org</a></p>` + "\n",
	} {
		got := string(markup.HTML(source))
		testkit.Check(t, got == want, "%q: %q, want %q", source, got, want)
	}
}

// TestHTMLIsBounded converts pages that would take the converter seconds or minutes, and a page that
// people write. Behind the bound all is text.
func TestHTMLIsBounded(t *testing.T) {
	testkit.TakesSeconds(t)
	const page = 200_000 // as much of a page as is read
	again := func(text string) string { return strings.Repeat(text, page/len(text)) }
	line := func(text string) string { return again(strings.Repeat(text, 40) + "\n") }
	row := strings.Repeat("a|", 1000)
	for name, tt := range map[string]struct {
		source string
		most   int // bytes that are converted
	}{
		"links":                {again("[a]("), 0},
		"images":               {line("!["), 30_000},
		"brackets":             {line("[") + line("]"), 30_000},
		"emphasis":             {line("*a_"), 30_000},
		"tags":                 {line("<a "), 31_000},
		"code":                 {line("`a``b"), 30_000},
		"quotes in quotes":     {again(">"), 0},
		"below lists in lists": {strings.Repeat("- ", 1000) + again("\n"), 3_000},
		"rows of a wide table": {"|" + row + "\n|" + strings.ReplaceAll(row, "a", "-") + "\n" + again("|\n"), 5_000},
		"bars in cells":        {again("|a|\n|-|\n`\\|`|\n\n"), 120_000},
		"a long page":          {again("## Part\n" + strings.Repeat("Some *words* of [a page](https://e.org), as `people` write them.\n", 40) + "- [ ] to do\n\t- and more\n\n|a|b|\n|-|-|\n|c|d|\n\n```\ncode[1](2)\n```\n"), page},
	} {
		_, rest, cut := strings.Cut(string(markup.HTML(tt.source)), `<p class="words">`)
		rest = html.UnescapeString(strings.TrimSuffix(rest, "</p>\n"))
		if converted := len(tt.source) - len(rest); converted > tt.most || cut != (tt.most < page) || !strings.HasSuffix(tt.source, rest) {
			t.Errorf("%s: %d of %d bytes were converted, want %d at most", name, converted, len(tt.source), tt.most)
		}
	}
}
