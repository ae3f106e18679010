package setup

import (
	"strings"

	"dibs/internal/notion"
	"dibs/internal/task"
)

// Words are listed with commas, the likeliest first. Case, spaces, "_", "-" and emoji do not matter.

// people are names of properties that say who has a task. Those for claimed_by and for assignee
// differ in type only.
const people = "assignee, assignees, assigned to, assigned, owner, agent, worker, holder, responsible, person, who, " +
	"zuständig, zuständige, zuständige person, verantwortlich, verantwortliche, bearbeiter, bearbeiterin, zugewiesen an, " +
	"responsable, assigné à, attribué à, pris par, asignado a, encargado, encargada"

// propertyWords are other names of properties. Where the type says enough, words decide between
// several. Data that a claim would overwrite, such as a date, is nobody's guess.
var propertyWords = map[string]string{
	"status": "state, task status, stage, phase, workflow, progress, zustand, stand, statut, état, avancement, étape, " +
		"estado, etapa, stan, статус, ステータス, 状態, 상태, 状态",
	"claimed_by": people,
	assignee:     people,
	"priority":   "importance, urgency, wichtigkeit, dringlichkeit, urgence, importancia, urgencia",
	done: "done, is done, complete, completed, finished, checked, erledigt, fertig, abgeschlossen, fait, faite, terminé, terminée, " +
		"hecho, hecha, terminado, terminada, feito, klaar, gotowe, готово, 完了, 완료, 完成",
	subItems: "sub-item, sub-items, subtask, subtasks, children, unterelemente, unteraufgaben, teilaufgaben, " +
		"sous-tâches, sous-éléments, subelementos, subtareas",
	doneWhen: "done when, definition of done, acceptance criteria, acceptance, fertig wenn, akzeptanzkriterien, " +
		"critères d'acceptation, criterios de aceptación",
	"depends_on": "blocked by, dependencies, dependency, depends, waits for, waiting for, prerequisites, " +
		"abhängig von, hängt ab von, abhängigkeiten, blockiert von, blockiert durch, wartet auf, " +
		"dépend de, dépendances, bloqué par, depende de, dependencias, bloqueado por, " +
		"dependências, afhankelijk van, zależy od, зависит от, 依存関係, 의존성, 依赖",
}

// statusWords are other names of statuses. They say what groups do not: which of a group's options is
// meant, and anything about a select.
var statusWords = map[task.Status]struct{ english, others string }{
	task.Open: {
		"to do, todo, not started, new, ready, backlog",
		"offen, zu erledigen, zu tun, nicht begonnen, neu, bereit, à faire, ouvert, pas commencé, nouveau, " +
			"por hacer, pendiente, abierto, sin empezar, nuevo, " +
			"não iniciada, niet gestart, nie rozpoczęto, не начато, 未着手, 시작 전, 未开始",
	},
	task.InProgress: {
		"doing, in work, started, active, working",
		"in arbeit, in bearbeitung, begonnen, läuft, en cours, commencé, en curso, en progreso, en proceso",
	},
	task.Blocked: {
		"on hold, waiting, stuck, paused",
		"blockiert, wartet, pausiert, zurückgestellt, bloqué, bloquée, en attente, en pause, suspendu, " +
			"bloqueado, bloqueada, en espera, en pausa, detenido, em espera, geblokkeerd, zablokowane, заблокировано, 保留, 보류, 阻塞",
	},
	task.Completed: {
		"done, complete, finished, closed",
		"erledigt, fertig, abgeschlossen, terminé, terminée, fait, fini, hecho, hecha, terminado, terminada, completado, listo",
	},
	task.Cancelled: {
		"canceled, won't do, wont do, dropped, rejected",
		"abgebrochen, gestrichen, verworfen, storniert, entfällt, annulé, annulée, abandonné, " +
			"cancelado, cancelada, descartado, geannuleerd, anulowane, отменено, 中止, 취소, 取消",
	},
}

// rankWords are other names of priorities. A word that is no priority elsewhere, or that means
// several, such as Major, is not among them.
var rankWords = map[task.Priority]string{
	task.Critical: "critical, urgent, highest, very high, emergency, immediate, asap, blocker, p0, " +
		"kritisch, dringend, sofort, höchste, sehr hoch, critique, urgente, très haute, crítica, crítico, muy alta",
	task.High: "high, important, p1, hoch, hohe, wichtig, haute, élevée, importante, alta, alto, " +
		"hoog, wysoki, высокий, 高, 높음",
	task.Medium: "medium, normal, med, moderate, p2, mittel, mittlere, moyenne, normale, media, medio, " +
		"média, gemiddeld, średni, средний, 中, 중간",
	task.Low: "low, lowest, very low, p3, p4, p5, niedrig, niedrige, niedrigste, gering, geringe, basse, faible, baja, bajo, " +
		"baixa, laag, niski, низкий, 低, 낮음",
	task.None: "none, no, n a, keine, kein, ohne, aucune, sans, ninguna, sin, nenhuma, geen, brak, нет, なし, 없음, 无",
}

// saysPriority reports whether a name has the word for priority in it, in nearly any language. In an
// option it says nothing of the rank: High priority.
func saysPriority(name string) bool {
	for _, stem := range []string{"prio", "приор", "優先", "우선", "优先"} {
		if strings.Contains(strings.ToLower(name), stem) {
			return true
		}
	}
	return false
}

// firstOf returns the name that the likeliest of the words means; empty if none does.
func firstOf(words string, names []string) string {
	for word := range strings.SplitSeq(words, ", ") {
		if name := notion.Similar(word, names); name != "" {
			return name
		}
	}
	return ""
}
