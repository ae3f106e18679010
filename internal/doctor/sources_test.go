package doctor_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"dibs/internal/doctor"
	"dibs/internal/journal"
	"dibs/internal/task"
	"dibs/internal/workspace"
)

// An added data source is no problem if the daemon's journal knows the first one.
func TestADataSourceThatWasAdded(t *testing.T) {
	inWorld(t, func(w *world) {
		dbs := w.notion.Databases()
		client, err := workspace.Connect(w.options.Config.Notion, w.options.Transport, slog.New(slog.DiscardHandler))
		if err != nil {
			w.Fatal(err)
		}
		first, err := client.Sources(w.Context(), task.ID(dbs.Tasks))
		if err != nil {
			w.Fatal(err)
		}
		data, err := json.Marshal(first)
		if err != nil {
			w.Fatal(err)
		}
		j := w.journal()
		if err := errors.Join(j.SetMeta(w.Context(), journal.MetaSources, string(data)), j.Close()); err != nil {
			w.Fatal(err)
		}
		if _, err := w.notion.CopyDataSource(dbs.Tasks, "Copy"); err != nil {
			w.Fatal(err)
		}
		report := doctor.Run(w.Context(), w.options)
		f := find(report, "databases.tasks_source")
		if f.Level != doctor.Warning || !strings.Contains(f.Found, "goes on being used") || !strings.HasPrefix(f.Remedy, "set databases.tasks_source") || report.Failed() {
			w.Errorf("finding = %+v, failed %v", f, report.Failed())
		}
	})
}
