package doctor_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"dibs/config"
	"dibs/internal/api/client"
	"dibs/internal/journal"
	"dibs/internal/notion/emulator"
	"dibs/internal/setup/doctor"
)

// world is a workspace without faults, in a bubble of virtual time.
type world struct {
	*testing.T
	notion  *emulator.Emulator
	options doctor.Options
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, end := newWorld(t)
		defer end()
		test(w)
	})
}

// newWorld makes a world, in the caller's bubble if there is one.
func newWorld(t *testing.T) (w *world, end func()) {
	t.Helper()
	em, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dbs, err := em.Seed("empty")
	if err != nil {
		t.Fatal(err)
	}
	transport := em.Client().Transport
	c := config.Default()
	c.Notion.Token = config.Secret(em.Token())
	c.Databases = config.Databases{Tasks: dbs.Tasks, TaskLog: dbs.TaskLog, MeshLog: dbs.MeshLog}
	c.StateDir = filepath.Join(t.TempDir(), "state")
	c.Socket = filepath.Join(c.StateDir, "dibs.sock")
	w = &world{t, em, doctor.Options{
		Config: c, Transport: transport,
		Daemon: client.Over(c.Socket, func(context.Context) (net.Conn, error) { return nil, errors.New("no such file") }),
	}}
	return w, func() {
		transport.(*http.Transport).CloseIdleConnections()
		em.Close()
	}
}

func (w *world) schema(change map[string]any) {
	w.Helper()
	if err := w.notion.EditSchema(w.notion.Databases().Tasks, change); err != nil {
		w.Fatal(err)
	}
}

// stateDir makes the state directory with that mode, whatever the umask.
func (w *world) stateDir(mode os.FileMode) {
	w.Helper()
	dir := w.options.Config.StateDir
	if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) journal() *journal.Journal {
	w.Helper()
	j, err := journal.Open(w.Context(), filepath.Join(w.options.Config.StateDir, journal.FileName))
	if err != nil {
		w.Fatal(err)
	}
	return j
}
