package client_test

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"dibs/internal/api"
	"dibs/internal/api/client"
	"dibs/internal/testkit"
)

// The users of these tests exist by their numbers only.
const (
	mallory = 64001
	another = 64002
)

// TestImpostor asks on sockets on which another user listens.
func TestImpostor(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	const where, whom = "where anybody could: nothing was asked", "whom socket_user names: nothing was asked"
	for name, tt := range map[string]struct {
		above    fs.FileMode // of root's directory
		owner    int         // of the directory below it, with the socket
		mode     fs.FileMode // of that
		user     string
		impostor string // what is said; empty for one who is believed
	}{
		"in a directory that root let its owner have": {0o755, mallory, 0o755, "", ""},
		"in a directory that anybody could make":      {0o777 | fs.ModeSticky, mallory, 0o755, "", where},
		"in a directory for everybody":                {0o755, 0, 0o777 | fs.ModeSticky, "", where},
		"in another user's directory for everybody":   {0o755, another, 0o777 | fs.ModeSticky, "", where},
		"in a directory for everybody, named":         {0o755, 0, 0o777 | fs.ModeSticky, "64001", ""},
		"in its directory, another named":             {0o755, mallory, 0o755, "64002", whom},
	} {
		t.Run(name, func(t *testing.T) {
			above, err := os.MkdirTemp("", "dibs")
			testkit.Must(t, err)
			defer os.RemoveAll(above)
			dir := filepath.Join(above, "d")
			testkit.Must(t, errors.Join(os.Chmod(above, tt.above), os.Mkdir(dir, 0o700), os.Chown(dir, tt.owner, tt.owner), os.Chmod(dir, tt.mode)))
			socket := filepath.Join(dir, "s")
			var l net.Listener
			testkit.AsUser(t, mallory, mallory, func() { l, err = net.Listen("unix", socket) })
			testkit.Must(t, err)
			var asked atomic.Int32
			server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte("{}"))
			})}
			go server.Serve(l)
			defer server.Close()

			_, err = client.Do(t.Context(), client.Of(socket, tt.user), api.OpStatus, struct{}{})
			impostor, refused := errors.AsType[*client.ImpostorError](err)
			switch {
			case tt.impostor == "":
				testkit.Check(t, err == nil && asked.Load() == 1, "err = %v, asked %d times", err, asked.Load())
			case !refused || asked.Load() > 0 || impostor.UID != mallory || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), tt.impostor):
				t.Errorf("err = %v, asked %d times; want nothing asked, and %q", err, asked.Load(), tt.impostor)
			}
		})
	}
}
