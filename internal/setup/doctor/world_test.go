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
	"dibs/internal/testkit"
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
	em := testkit.Got(emulator.New(emulator.Options{}))(t)
	dbs := testkit.Got(em.Seed("empty"))(t)
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
	testkit.Must(w, w.notion.EditSchema(w.notion.Databases().Tasks, change))
}

// stateDir makes the state directory with that mode, whatever the umask.
func (w *world) stateDir(mode os.FileMode) {
	w.Helper()
	dir := w.options.Config.StateDir
	testkit.Must(w, errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)))
}

func (w *world) journal() *journal.Journal {
	w.Helper()
	j := testkit.Got(journal.Open(w.Context(), filepath.Join(w.options.Config.StateDir, journal.FileName)))(w)
	return j
}

// finds runs the doctor, which has to find that of a check, and to say all parts of it. The level is
// empty if it is to find nothing.
func (w *world) finds(check string, level doctor.Level, parts ...string) {
	w.Helper()
	f := find(doctor.Run(w.Context(), w.options), check)
	testkit.Check(w, f.Level == level, "%s: %+v, want %q", check, f, level)
	testkit.Says(w, check, f.Found+" "+f.Remedy, parts...)
}

// runIn runs a test of that name in a world.
func runIn(t *testing.T, name string, test func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, test) })
}
