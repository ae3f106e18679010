package task_test

import (
	"testing"
	"unicode"

	"dibs/internal/task"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"Ein Satz.\n\t- über «Ελλάδα» 日本 👩‍👧\n":                        "Ein Satz.\n\t- über «Ελλάδα» 日本 👩‍👧\n",
		"a\r\nb\rc\u2028d\u2029e\u0085f":                               "a\nb\nc\nd\ne\nf",
		"\x1b[31mred\x1b[0m \u009b2Jgone":                              "red gone",
		"\x1b]0;a title\x07x\x1b]8;;http://e\x1b\\y\u009dtitle\u009cz": "xyz",
		"\x1bP1$r\x1b\\a\x1bcb\x1b(Bc":                                 "abc",
		"\x1b]52;never ended\nnext":                                    "52;never ended\nnext",
		"user\u202etxt.exe\u2066\u200b\ufeff\u00ad":                    "usertxt.exe",
		"\x00\x07\x08\x7f\u0080|":                                      "|",
		"tags \U000e0041\U000e0042":                                    "tags ",
		"\xff\xfe":                                                     "\ufffd",
		"می\u200cخواهم":                                                "می\u200cخواهم",
		"\x1b\x1b[[31m":                                                "31m",
		"\x1b":                                                         "",
	} {
		if got := task.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
}

// A line keeps what joins letters and emoji, and nothing else that is not seen.
func TestOneLineKeepsJoiners(t *testing.T) {
	for in, want := range map[string]string{
		"می\u200cخواهم":                         "می\u200cخواهم",
		"क्\u200dष":                             "क्\u200dष",
		"👩\u200d👧 und 🏳️\u200d🌈":                "👩\u200d👧 und 🏳️\u200d🌈",
		"\u200d":                                "�",
		"a \u200db":                             "a �b",
		"a\u200c\u200d\u200cb":                  "a\u200c��b",
		"user\u202etxt\u2066\u200b\ufeff\u00ad": "user�txt����",
		"tags \U000e0041":                       "tags �",
	} {
		if got := task.OneLine(in, '�'); got != want {
			t.Errorf("OneLine(%+q) = %+q, want %+q", in, got, want)
		}
	}
	if got := task.OneLine(" \u200d ", -1); got != "" {
		t.Errorf("of nothing seen, %+q is left", got)
	}
}

// Names in two forms of Unicode are the same where they are compared.
func TestNamesOfTwoForms(t *testing.T) {
	const composed, apart = "Zust\u00e4ndig", "Zusta\u0308ndig"
	if task.Name(apart) != composed || task.Name(composed) != composed {
		t.Errorf("%+q, %+q", task.Name(apart), task.Name(composed))
	}
	if !task.FieldMatches(apart, composed) || !task.FieldMatches(composed, apart) {
		t.Error("values of two forms differ")
	}
	if c, err := task.ParseCondition(apart+"=x", []string{composed}); err != nil || c.Field != composed {
		t.Errorf("condition %+v, %v", c, err)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b\x1b[31m[31m\x1b]0;x\x07\u202e\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := task.Plain(s)
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("Plain(%q) = %q has %U", s, got, r)
			}
		}
		if again := task.Plain(got); again != got {
			t.Fatalf("Plain(%q) = %q becomes %q", s, got, again)
		}
	})
}
