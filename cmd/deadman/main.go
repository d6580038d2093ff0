// Command deadman tells people when something has not happened: it runs a node, and talks
// to one.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// garbage is how much of it there may be before it is collected, in percent of what is in use: a node has
// little in use, and leaves much while it sweeps. GOGC sets something else.
const garbage = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	p := newProgram(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	os.Exit(p.run(ctx, os.Args[1:]))
}
