// Command mutations plants the bugs of bugs/*.yaml in the code, one at a time, and runs the tests that should catch them.
// It edits no file of the checkout: go test reads the planted file through -overlay.
//
//	pgtest go run ./internal/tools/mutations [-run REGEXP] [-list] [-timeout DURATION]
//
// It first runs the tests without a bug, and they must pass. A bug is caught if a test fails or exceeds the timeout. The
// exit code is 1 if a bug survives, or does not apply or compile.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed bugs/*.yaml
var list embed.FS

func main() {
	names := flag.String("run", "", "plant only the bugs with names that match this `regexp`")
	only := flag.Bool("list", false, "list the bugs and exit")
	timeout := flag.Duration("timeout", 3*time.Minute, "the longest run of one package's tests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *names, *only, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1) //nolint:gocritic // the signal's handler ends with the process
	}
}

func run(ctx context.Context, out io.Writer, names string, only bool, timeout time.Duration) error {
	bugs, err := readBugs(list)
	if err != nil {
		return err
	}
	chosen, err := regexp.Compile(names)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	bugs = slices.DeleteFunc(bugs, func(b bug) bool { return !chosen.MatchString(b.Name) })
	if len(bugs) == 0 {
		return fmt.Errorf("no bug has a name that matches %q; -list prints the names", names)
	}
	if only {
		return printList(out, bugs)
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	return campaign{tester{root, timeout}, out}.run(ctx, bugs)
}

func printList(out io.Writer, bugs []bug) error {
	for _, b := range bugs {
		if _, err := fmt.Fprintf(out, "%-52s %-3s  %s\n", b.Name, b.Promise, b.File); err != nil {
			return err
		}
	}
	return nil
}

// moduleRoot returns the folder of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(text))), nil
}
