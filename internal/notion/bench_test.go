package notion_test

import (
	"io"
	"net/http"
	"testing"

	"dibs/internal/notion"
	"dibs/internal/notion/emulator"
	"dibs/internal/outbox/wording"
	"dibs/internal/task"
)

// BenchmarkRequest measures what a request costs from the caller to the network and back: everything but
// the network, which answers what the emulator has answered to the first request of its kind.
func BenchmarkRequest(b *testing.B) {
	em := need(emulator.New(emulator.Options{}))(b)
	defer em.Close()
	databases := need(em.Seed("empty"))(b)
	must(b, em.AddTasks(100))
	id := task.ID(em.Pages(databases.Tasks)[0].ID)
	kept := make(map[string]string)
	network := roundTrip(func(req *http.Request) (*http.Response, error) {
		kind := req.Method + req.URL.Path
		if kept[kind] == "" {
			resp, err := em.Client().Transport.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			kept[kind] = string(need(io.ReadAll(resp.Body))(b))
		} else if req.Body != nil {
			io.Copy(io.Discard, req.Body)
		}
		return answer(http.StatusOK, "application/json", kept[kind]), nil
	})
	client := need(notion.New(notion.Options{Token: em.Token(), Transport: network, Rate: 1e9, Burst: 1e9}))(b)
	tasks := need(client.Tasks(b.Context(), databases.Tasks, notion.TaskSchema{}))(b)
	log := need(client.Log(b.Context(), databases.MeshLog))(b)
	for name, request := range map[string]func() error{
		"get a page":   func() error { _, err := tasks.Get(b.Context(), id); return err },
		"patch a page": func() error { _, err := tasks.Write(b.Context(), id, claimed("Sandman", dawn)); return err },
		"post a page":  func() error { return log.Create(b.Context(), wording.Entry{ID: "1", Title: "Done"}) },
		"post a query": func() error { _, _, err := tasks.Query(b.Context(), notion.Query{}); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, request())
			}
		})
	}
}
