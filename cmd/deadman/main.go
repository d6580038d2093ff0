// Command deadman tells people when something has not happened. It runs a node, and is the client of one.
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
	p := newProgram(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	os.Exit(p.run(ctx, os.Args[1:]))
}
