// Command dibs lets named agents and people share one task queue kept in Notion
// without doing the same work twice.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"dibs/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
