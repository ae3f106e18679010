package markup_test

import (
	"testing"

	"dibs/internal/board/markup"
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
	} {
		if got := string(markup.HTML(source)); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}
