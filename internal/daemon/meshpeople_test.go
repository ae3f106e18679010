package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/oklog/ulid/v2"
	mathrand "math/rand"
)

// meshPeople edit the board.
type meshPeople struct {
	*mesh
	random *rand.Rand
	made   int
}

// meshGesture is something that a person does to a task. Those that take are those after which
// a claim on it need not stand any more.
type meshGesture struct {
	name  string
	takes bool
	props map[string]any
}

var (
	nobodys = map[string]any{
		"status":     option("status", "OPEN"),
		"claimed_by": text("rich_text", ""), "claim_token": text("rich_text", ""), "claimed_at": map[string]any{"date": nil},
	}
	meshGestures = []meshGesture{
		{"hands out", true, nobodys},
		{"drags to OPEN", true, map[string]any{"status": option("status", "OPEN")}},
		{"blocks", true, map[string]any{"status": option("status", "BLOCKED")}},
		{"cancels", true, map[string]any{"status": option("status", "CANCELLED")}},
		{"completes", true, map[string]any{"status": option("status", "COMPLETED")}},
		{"takes", true, map[string]any{"claimed_by": text("rich_text", "Maria")}},
		{"clears the token of", true, map[string]any{"claim_token": text("rich_text", "")}},
		{"gives high priority to", false, map[string]any{"priority": option("select", "high")}},
		{"gives low priority to", false, map[string]any{"priority": option("select", "low")}},
	}
)

// task is one of the board's.
func (p *meshPeople) task() emulator.Page {
	pages := p.notion.Pages(p.tasks)
	return pages[p.random.IntN(len(pages))]
}

// changes has a person do something to a task.
func (p *meshPeople) changes(page emulator.Page, g meshGesture) {
	if g.takes {
		p.book.taken(page.ID)
	}
	p.trace.add("people", "%s %q", g.name, p.book.title(page.ID))
	p.count("people: " + g.name)
	p.edit(page.ID, g.props)
}

// work edits tasks until the troubles end.
func (p *meshPeople) work() {
	for p.busy && p.pause(p.random, 0, 4*time.Minute) {
		page := p.task()
		switch draw := p.random.IntN(len(meshGestures) + 5); draw {
		case 0:
			title := fmt.Sprint("Renamed ", p.random.IntN(1000))
			p.changes(page, meshGesture{"renames to " + title, false, map[string]any{"Name": text("title", title)}})
		case 1:
			p.book.taken(page.ID)
			p.trace.add("people", "trash %q", p.book.title(page.ID))
			p.count("people: trash and restore")
			mustDo(p.world, p.notion.TrashPage(page.ID))
			time.Sleep(upTo(p.random, 3*time.Minute))
			p.book.taken(page.ID)
			p.trace.add("people", "restore %q", p.book.title(page.ID))
			mustDo(p.world, p.notion.RestorePage(page.ID))
		case 2:
			// An undo: some time later, the page is as it was before an edit.
			p.changes(page, meshGestures[p.random.IntN(6)])
			time.Sleep(upTo(p.random, time.Minute))
			p.changes(page, meshGesture{"undoes a change of", true, map[string]any{
				"status": option("status", page.Select("status")), "claimed_by": text("rich_text", page.Text("claimed_by")),
			}})
		case 3:
			p.changes(page, p.leftBehind())
		case 4:
			p.made++
			p.newTask(fmt.Sprint("Extra ", p.made), map[string]any{"depends_on": relation(page.ID)})
		default:
			p.changes(page, meshGestures[draw-5])
		}
	}
}

// leftBehind has somebody have claimed a task an hour ago whose daemon is gone for good.
func (p *meshPeople) leftBehind() meshGesture {
	at := time.Now().Add(-time.Hour)
	entropy := mathrand.New(mathrand.NewSource(p.random.Int64()))
	return meshGesture{"leaves behind", true, map[string]any{
		"status": option("status", "IN_PROGRESS"), "claimed_by": text("rich_text", "Ghost"), "claimed_at": date(at),
		"claim_token": text("rich_text", ulid.MustNew(ulid.Timestamp(at), entropy).String()),
	}}
}

// lead sees to it that there is work, until the troubles end: hands out again what nobody works
// on.
func (p *meshPeople) lead() {
	for p.pause(p.random, 0, time.Minute) {
		page := p.task()
		if page.Trashed || page.Select("status") == "IN_PROGRESS" && page.Text("claimed_by") != "Maria" || page.Select("status") == "OPEN" && page.Text("claimed_by") == "" {
			continue
		}
		p.changes(page, meshGestures[0])
	}
}
