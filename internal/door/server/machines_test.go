package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"dibs/internal/claim/keepers"
	"dibs/internal/door/server"
)

// TestProcessesOfAMember has another member say of a process that it lives, that it cannot see it, and
// that there is none.
func TestProcessesOfAMember(t *testing.T) {
	for name, tt := range map[string]struct {
		says string
		want keepers.Life
	}{
		"lives":          {`{"pid":7,"began":"then","uid":1}`, keepers.Living},
		"another by now": {`{"pid":7,"began":"later","uid":1}`, keepers.Gone},
		"not seen":       {`{"pid":7,"uid":-1,"unknown":"it is there"}`, keepers.Unheard},
		"gone":           {``, keepers.Gone},
	} {
		inBubble(t, name, func(t *testing.T) {
			pipe := server.NewPipe()
			member := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, `{"processes":[`+tt.says+`]}`)
			})}
			go member.Serve(pipe)
			defer member.Close()
			machines := server.NewMachines("here", func(ctx context.Context, _ string) (net.Conn, error) { return pipe.Dial(ctx) })
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go machines.Run(ctx)
			process := keepers.Process{ID: 7, Began: "then", UID: 1, Member: "there"}
			machines.Life(process) // from now on it is asked about
			time.Sleep(2 * time.Second)
			synctest.Wait()
			found, err := machines.Find(ctx, "there", 7)
			if got := machines.Life(process); got != tt.want || tt.want == keepers.Living && (err != nil || found != process) ||
				errors.Is(err, keepers.ErrNoProcess) != (name == "gone") {
				t.Errorf("the process is %v, found %+v, %v; want %v", got, found, err, tt.want)
			}
		})
	}
}
