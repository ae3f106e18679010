package notion_test

import (
	"path/filepath"
	"strings"
	"testing"

	"dibs/internal/notion/sdktypes"
	"dibs/internal/testkit"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
)

// What is on the cassettes is of the types of Notion's SDK.
func TestTypesOnTape(t *testing.T) {
	testkit.TakesSeconds(t)
	testkit.SkipUnderRace(t)
	tapes, err := filepath.Glob(filepath.Join(fixtures, "*.yaml"))
	if err != nil || len(tapes) < 10 {
		t.Fatalf("%d cassettes, %v", len(tapes), err)
	}
	var taped []sdktypes.Exchange
	for _, tape := range tapes {
		c, err := cassette.Load(strings.TrimSuffix(tape, ".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range c.Interactions {
			taped = append(taped, sdktypes.Exchange{
				Method: i.Request.Method, URL: i.Request.URL, Version: i.Request.Headers.Get("Notion-Version"), Body: i.Request.Body,
				Status: i.Response.Code, Type: i.Response.Headers.Get("Content-Type"), Answer: i.Response.Body,
			})
		}
	}
	sdktypes.Check(t, taped)
}
