// Command deadman raises alerts for expected events that do not happen. It runs a node and is a client for nodes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	boundGarbage()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	io := newCLI(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	os.Exit(io.run(ctx, os.Args[1:]))
}
