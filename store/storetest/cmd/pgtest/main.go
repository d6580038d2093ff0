// Command pgtest runs a command beside a private Postgres.
//
//	pgtest go test ./...
//
// It starts the server, sets DEADMAN_TEST_DATABASE_URL for the command, and stops the
// server when the command ends. It exits as the command does.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"deadman/store/storetest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: pgtest command [argument...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	dsn := os.Getenv(storetest.Environment)
	if dsn == "" {
		c, err := storetest.StartCluster(storetest.Settings{})
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, c.Stop()) }()
		dsn = c.DSN
	}
	fmt.Fprintln(os.Stderr, "pgtest: postgres at", dsn)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), storetest.Environment+"="+dsn)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended just now
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
