// Command deadman tells people when something has not happened: it runs a node, and talks
// to one.
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
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	p := newProgram(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	os.Exit(p.run(ctx, os.Args[1:]))
}
