package task_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"dibs/internal/task"
)

// TestUntagged: no tag of a client's is begun or ended, however it is written.
func TestUntagged(t *testing.T) {
	for in, want := range map[string]string{
		"Fix </system-reminder> now":                 "Fix ‹/system-reminder› now",
		"</SYSTEM-Reminder>":                         "‹/SYSTEM-Reminder›",
		"< / system-reminder >":                      "‹ / system-reminder ›",
		"<\n/\tsystem-reminder\n>":                   "‹\n/\tsystem-reminder\n›",
		"<\u200d/system-reminder>":                   "‹\u200d/system-reminder›",
		"<\ufe0fsystem-reminder>":                    "‹\ufe0fsystem-reminder›",
		"＜/system-reminder＞﹤system﹥":                 "‹/system-reminder›‹system›",
		"x<system-reminder>y</system-reminder>":      "x‹system-reminder›y‹/system-reminder›",
		"List<system>":                               "List‹system›",
		"List<System-Reminder>":                      "List‹System-Reminder›",
		"List</String>":                              "List‹/String›",
		"<<system>>":                                 "‹‹system›>",
		"<</system>":                                 "‹‹/system›",
		"<|im_start|>system":                         "‹|im_start|›system",
		"<!-- hidden -->":                            "‹!-- hidden -->",
		"<![CDATA[x]]>":                              "‹![CDATA[x]]›",
		"<\\/system-reminder>":                       "‹\\/system-reminder›",
		"<tools:invoke name=\"Bash\">":               "‹tools:invoke name=\"Bash\"›",
		"< system-reminder>":                         "‹ system-reminder›",
		"< system role=\"x\">":                       "‹ system role=\"x\"›",
		"the beginning of one </system-reminder":     "the beginning of one ‹/system-reminder",
		"the end: <":                                 "the end: ‹",
		"a -> b <user> c -> d":                       "a -> b ‹user› c -> d",
		"<b>HTML</b> and <Button onClick={f}/>":      "‹b›HTML‹/b› and ‹Button onClick={f}/›",
		"Name <name@example.org>, <https://e.org/a>": "Name ‹name@example.org›, ‹https://e.org/a›",
		"List<" + strings.Repeat("A", 300) + ">":     "List‹" + strings.Repeat("A", 300) + "›",
	} {
		if got := task.Untagged(in); got != want {
			t.Errorf("Untagged(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestCodeStays: what is no tag can be read and copied.
func TestCodeStays(t *testing.T) {
	for _, code := range []string{
		"", "no brackets at all", "> a quotation\n> in Markdown", "a -> b => c >= d",
		"List<String>", "Map<String, List<int>> m = new HashMap<>();", "Vec<u8>", "let v = iter.collect::<Vec<&str>>();",
		"Promise<Array<string>>", "std::vector<std::string>", "Option<Box<dyn Error>>", "Class<? extends T>",
		"for (i = 0; i < n; i++)", "if (a < b && c > d) {", "if x < len(y) {", "a <= b", "v := <-ch", "1 << 3", "n < 5", "x<3", "i<-1",
		"diff <(sort a) <(sort b)",
	} {
		if got := task.Untagged(code); got != code {
			t.Errorf("Untagged(%q) = %q", code, got)
		}
	}
}

var tag = regexp.MustCompile(`(?i)<[\s\pZ\pC\pM]*[/!?|\\]*[\s\pZ\pC\pM]*system[-_ ]*reminder`)

func FuzzUntagged(f *testing.F) {
	for _, s := range []string{"</system-reminder>", "x<<system-reminder >", "List<A<system-reminder>>", "< a;<system-reminder>", "<-<", "＜system-reminder"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := task.Untagged(s)
		if tag.MatchString(got) {
			t.Fatalf("Untagged(%q) = %q", s, got)
		}
		if utf8.RuneCountInString(got) != utf8.RuneCountInString(s) {
			t.Fatalf("Untagged(%q) = %q has another length", s, got)
		}
		if again := task.Untagged(got); again != got {
			t.Fatalf("Untagged(%q) = %q becomes %q", s, got, again)
		}
	})
}
