package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/notion/emulator"

	"github.com/jomei/notionapi"
)

// Third-party clients must work: this one is used as documented.
func TestServesNotionAPILibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := emulator.New(emulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		dbs, err := e.Seed("empty")
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		c := notionapi.NewClient(notionapi.Token(e.Token()), notionapi.WithHTTPClient(e.Client()))

		me, err := c.User.Me(ctx)
		if err != nil || me.Type != "bot" {
			t.Errorf("me = %+v, %v", me, err)
		}

		db, err := c.Database.Get(ctx, notionapi.DatabaseID(dbs.Tasks))
		if err != nil {
			t.Fatal(err)
		}
		status, ok := db.Properties["status"].(*notionapi.StatusPropertyConfig)
		if !ok || len(status.Status.Options) != 5 || len(status.Status.Groups) != 3 {
			t.Errorf("status = %+v", db.Properties["status"])
		}

		created, err := c.Page.Create(ctx, &notionapi.PageCreateRequest{
			Parent: notionapi.Parent{Type: notionapi.ParentTypeDatabaseID, DatabaseID: notionapi.DatabaseID(dbs.Tasks)},
			Properties: notionapi.Properties{
				"Name":     notionapi.TitleProperty{Title: []notionapi.RichText{{Text: &notionapi.Text{Content: "Write the docs"}}}},
				"priority": notionapi.SelectProperty{Select: notionapi.Option{Name: "high"}},
			},
			Children: []notionapi.Block{notionapi.ParagraphBlock{
				BasicBlock: notionapi.BasicBlock{Object: "block", Type: notionapi.BlockTypeParagraph},
				Paragraph:  notionapi.Paragraph{RichText: []notionapi.RichText{{Text: &notionapi.Text{Content: "All of them."}}}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if id := created.Properties["ID"].(*notionapi.UniqueIDProperty).UniqueID.String(); id != "TASK-1" {
			t.Errorf("unique id = %s, want TASK-1", id)
		}

		now := notionapi.Date(time.Now())
		id := notionapi.PageID(created.ID)
		updated, err := c.Page.Update(ctx, id, &notionapi.PageUpdateRequest{Properties: notionapi.Properties{
			"status":     notionapi.StatusProperty{Status: notionapi.Status{Name: "IN_PROGRESS"}},
			"claimed_by": notionapi.RichTextProperty{RichText: []notionapi.RichText{{Text: &notionapi.Text{Content: "Sandman"}}}},
			"claimed_at": notionapi.DateProperty{Date: &notionapi.DateObject{Start: &now}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if s := updated.Properties["status"].(*notionapi.StatusProperty).Status.Name; s != "IN_PROGRESS" {
			t.Errorf("status = %s, want IN_PROGRESS", s)
		}

		got, err := c.Page.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		by := got.Properties["claimed_by"].(*notionapi.RichTextProperty).RichText
		if len(by) != 1 || by[0].PlainText != "Sandman" {
			t.Errorf("claimed_by = %+v", by)
		}

		rows, err := c.Database.Query(ctx, notionapi.DatabaseID(dbs.Tasks), &notionapi.DatabaseQueryRequest{
			Filter: notionapi.AndCompoundFilter{
				notionapi.PropertyFilter{Property: "status", Status: &notionapi.StatusFilterCondition{Equals: "IN_PROGRESS"}},
				notionapi.PropertyFilter{Property: "claimed_by", RichText: &notionapi.TextFilterCondition{Equals: "Sandman"}},
			},
			Sorts:    []notionapi.SortObject{{Timestamp: "created_time", Direction: "descending"}},
			PageSize: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows.Results) != 1 || rows.Results[0].ID != created.ID {
			t.Errorf("query found %+v", rows.Results)
		}

		blocks, err := c.Block.GetChildren(ctx, notionapi.BlockID(id), nil)
		if err != nil || len(blocks.Results) != 1 {
			t.Errorf("children = %+v, %v", blocks, err)
		}

		// The library's update always restores a trashed page.
		if err := e.TrashPage(string(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Page.Update(ctx, id, &notionapi.PageUpdateRequest{}); err != nil {
			t.Error(err)
		}
		if p, _ := e.Page(string(id)); p.Trashed {
			t.Error("archived: false left the page in the trash")
		}
	})
}
