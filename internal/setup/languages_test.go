package setup_test

import (
	"slices"
	"strings"
	"testing"

	"dibs/internal/setup"

	"github.com/google/go-cmp/cmp"
)

// grouped is a status with options in the three groups that every status has.
func grouped(todo, doing, done []string) any {
	var options []any
	for i, names := range [][]string{todo, doing, done} {
		for _, name := range names {
			options = append(options, map[string]any{"name": name, "group": []string{"To-do", "In progress", "Complete"}[i]})
		}
	}
	return map[string]any{"status": map[string]any{"options": options}}
}

// boardsInLanguages are boards as people make them from Notion's own template, or much like it.
var boardsInLanguages = map[string]struct {
	status, priority  string
	todo, doing, done []string
	priorities        []string
	// blocked is the word for BLOCKED that the board lacks; empty if it has one.
	blocked string
	want    map[string]string // the guesses
}{
	"Japanese": {
		"ステータス", "優先度", []string{"未着手"}, []string{"進行中"}, []string{"完了"}, []string{"高", "中", "低"}, "保留",
		map[string]string{"open": "未着手", "in_progress": "進行中", "completed": "完了", "high": "高", "medium": "中", "low": "低"},
	},
	"Korean": {
		"상태", "우선순위", []string{"시작 전"}, []string{"진행 중", "보류"}, []string{"완료", "취소"}, []string{"높음", "중간", "낮음"}, "",
		map[string]string{"open": "시작 전", "in_progress": "진행 중", "blocked": "보류", "completed": "완료", "cancelled": "취소", "high": "높음", "medium": "중간", "low": "낮음"},
	},
	"Chinese": {
		"状态", "优先级", []string{"未开始"}, []string{"进行中"}, []string{"已完成"}, []string{"高", "中", "低"}, "阻塞",
		map[string]string{"open": "未开始", "in_progress": "进行中", "completed": "已完成", "high": "高", "medium": "中", "low": "低"},
	},
	"Portuguese": {
		"Status", "Prioridade", []string{"Não iniciada"}, []string{"Em andamento", "Bloqueada"}, []string{"Concluída", "Cancelada"}, []string{"Alta", "Média", "Baixa"}, "",
		map[string]string{"open": "Não iniciada", "in_progress": "Em andamento", "blocked": "Bloqueada", "completed": "Concluída", "cancelled": "Cancelada", "high": "Alta", "medium": "Média", "low": "Baixa"},
	},
	"Dutch": {
		"Status", "Prioriteit", []string{"Niet gestart"}, []string{"Bezig"}, []string{"Klaar"}, []string{"Hoog", "Gemiddeld", "Laag"}, "Geblokkeerd",
		map[string]string{"open": "Niet gestart", "in_progress": "Bezig", "completed": "Klaar", "high": "Hoog", "medium": "Gemiddeld", "low": "Laag"},
	},
	"Polish": {
		"Stan", "Priorytet", []string{"Nie rozpoczęto"}, []string{"W toku"}, []string{"Gotowe"}, []string{"Wysoki", "Średni", "Niski"}, "Zablokowane",
		map[string]string{"status": "Stan", "open": "Nie rozpoczęto", "in_progress": "W toku", "completed": "Gotowe", "high": "Wysoki", "medium": "Średni", "low": "Niski"},
	},
	"Russian": {
		"Статус", "Приоритет", []string{"Не начато"}, []string{"В работе"}, []string{"Готово"}, []string{"Высокий", "Средний", "Низкий"}, "Заблокировано",
		map[string]string{"open": "Не начато", "in_progress": "В работе", "completed": "Готово", "high": "Высокий", "medium": "Средний", "low": "Низкий"},
	},
	"emoji": {
		"🚦 Status", "🔥 Priority", []string{"📥 To do"}, []string{"🚧 Doing", "⛔ Blocked"}, []string{"✅ Done", "🗑️ Dropped"}, []string{"🔴 High", "🟡 Medium", "🟢 Low"}, "",
		map[string]string{"open": "📥 To do", "in_progress": "🚧 Doing", "completed": "✅ Done", "cancelled": "🗑️ Dropped", "high": "🔴 High", "medium": "🟡 Medium", "low": "🟢 Low"},
	},
	"a language that dibs has no word of": {
		"Stöðu", "Forgangur (Priority)", []string{"Óbyrjað"}, []string{"Í vinnslu"}, []string{"Lokið"}, []string{"Hár", "Lágur"}, "Stopp",
		map[string]string{"status": "Stöðu", "open": "Óbyrjað", "in_progress": "Í vinnslu", "completed": "Lokið"},
	},
}

// What a team's own status and priority mean is found in any language. Nothing is added beside what is
// there, but the board's word for BLOCKED, which a person has to give.
func TestBoardsInLanguages(t *testing.T) {
	for name, tt := range boardsInLanguages {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.Given.Tasks = w.database("Board", map[string]any{
					"Name": of("title"), tt.status: grouped(tt.todo, tt.doing, tt.done), tt.priority: of("select", tt.priorities...),
				})
				if _, err := w.notion.CreatePage(w.options.Given.Tasks, map[string]any{tt.priority: map[string]any{"select": map[string]any{"name": tt.priorities[0]}}}); err != nil {
					w.Fatal(err)
				}
				p := w.plan()
				got := guesses(p)
				for _, key := range []string{"status", "priority"} { // by their names
					if name := map[string]string{"status": tt.status, "priority": tt.priority}[key]; tt.want[key] == "" && got[key] == name {
						delete(got, key)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					w.Errorf("guesses (-want +got):\n%s", diff)
				}
				if len(p.Offered) != 1 {
					w.Errorf("%d tasks are offered, want 1", len(p.Offered))
				}
				for _, s := range p.Steps {
					if strings.Contains(s.What, "CANCELLED") || strings.Contains(s.What, "priority (") || s.Action == setup.AddOptions {
						w.Errorf("%s: beside what is there", s)
					}
				}
				if tt.blocked != "" {
					if len(p.Questions) != 1 || p.Questions[0].Key != "blocked" || !strings.Contains(p.Questions[0].String(), "--map blocked=") {
						w.Errorf("questions %v, want the board's word for BLOCKED", p.Questions)
					}
					if err := p.Apply(w.Context(), func(setup.Step) {}); err == nil || !strings.Contains(err.Error(), "--map blocked=") {
						w.Errorf("without an answer: %v", err)
					}
					w.options.Map = map[string]string{"blocked": tt.blocked}
					if p = w.plan(); p.Steps[0].Action != setup.AddOptions || !strings.HasSuffix(p.Steps[0].What, " by "+tt.blocked) {
						w.Errorf("the plan begins with %s", p.Steps[0])
					}
				}
				if len(p.Questions)+len(p.Problems) > 0 {
					w.Fatalf("questions %v, problems %q", p.Questions, p.Problems)
				}
				if last := p.Steps[len(p.Steps)-2]; last.Action != setup.AddProperties || last.Database != "tasks" {
					w.Errorf("the last step before the file is %s, want new columns", last)
				}
				w.apply(p)
				w.complete(p)
				options := slices.Concat(tt.todo, tt.doing, tt.done)
				if tt.blocked != "" {
					options = append(options, tt.blocked)
					if got := w.group(w.options.Given.Tasks, tt.status, tt.blocked); got != "In progress" {
						w.Errorf("%s is in group %q", tt.blocked, got)
					}
				}
				var there []string
				for _, o := range optionsOf(w.schemaOf(w.options.Given.Tasks)[tt.status], "status") {
					there = append(there, o.(map[string]any)["name"].(string))
				}
				if !sameNames(options, there) {
					w.Errorf("the status has %q, want %q", there, options)
				}
				w.again(p)
				if again := w.plan(); len(again.Steps)+len(again.Guesses)+len(again.Problems)+len(again.Questions) > 0 {
					w.Errorf("a second run would %v, guess %v, problems %q", again.Steps, again.Guesses, again.Problems)
				}
			})
		})
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Of several options in a group, one is taken, and the plan says so: a person is asked. A word decides
// first, then the team's order.
func TestSeveralOptionsInAGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Board", map[string]any{
			"Name": of("title"), "ステータス": grouped([]string{"アイデア", "📥 未着手"}, []string{"作業", "確認", "保留"}, []string{"公開"}),
		})
		p := w.plan()
		var said []string
		for _, q := range p.Questions {
			said = append(said, q.String())
		}
		want := []string{
			`which option of "ステータス" is OPEN? 📥 未着手 is taken, of アイデア, 📥 未着手; another: --map open=NAME`,
			`which option of "ステータス" is IN_PROGRESS? 作業 is taken, of 作業, 確認; another: --map in_progress=NAME`,
		}
		if diff := cmp.Diff(want, said); diff != "" {
			w.Errorf("questions (-want +got):\n%s", diff)
		}
		if got := guesses(p); got["blocked"] != "保留" || got["completed"] != "公開" || got["cancelled"] != "" {
			w.Errorf("guesses %v", got)
		}
		w.options.Map = map[string]string{"open": "アイデア", "in_progress": "確認", "cancelled": "中止"}
		p = w.plan()
		if s := p.Config.Tasks.Statuses; len(p.Questions)+len(p.Problems) > 0 || s.Open != "アイデア" || s.InProgress != "確認" {
			w.Errorf("questions %v, problems %q, statuses %+v", p.Questions, p.Problems, s)
		}
		if first := p.Steps[0].String(); first != "extend tasks: ステータス by 中止" {
			w.Errorf("the plan begins with %s", first)
		}
		w.apply(p)
		w.complete(p)
		if got := w.group(w.options.Given.Tasks, "ステータス", "中止"); got != "Complete" {
			w.Errorf("中止 is in group %q", got)
		}
	})
}

// An English board gets dibs's own words for what it lacks, unless it is to do without.
func TestEnglishBoardDoesWithout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Board", map[string]any{"Name": of("title"), "Status": grouped([]string{"To do"}, []string{"Doing"}, []string{"Done"})})
		for given, want := range map[string]string{"CANCELLED": "BLOCKED, CANCELLED", "": "BLOCKED"} {
			w.options.Map = map[string]string{"cancelled": given}
			if p := w.plan(); p.Steps[0].String() != "extend tasks: Status by "+want {
				w.Errorf("cancelled=%s: the plan begins with %s", given, p.Steps[0])
			}
		}
	})
}

// A select has no groups: where its words say nothing, a person has to say what they mean.
func TestSelectInAnotherLanguage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.Given.Tasks = w.database("Board", map[string]any{"Name": of("title"), "Status": of("select", "Óbyrjað", "Í vinnslu", "Lokið")})
		p := w.plan()
		var keys []string
		for _, q := range p.Questions {
			keys = append(keys, q.Key)
		}
		if diff := cmp.Diff([]string{"open", "in_progress", "blocked", "completed"}, keys); diff != "" {
			w.Errorf("questions (-want +got):\n%s", diff)
		}
		if said := p.Questions[0].String(); said != `which option of "Status" is OPEN? Give --map open=NAME: one of Óbyrjað, Í vinnslu, Lokið, or a new one in the board's language` {
			w.Errorf("it asks %s", said)
		}
		if slices.ContainsFunc(p.Steps, func(s setup.Step) bool { return s.Action == setup.AddOptions }) {
			w.Errorf("steps %v", p.Steps)
		}
	})
}
