// Command pgtest runs a command beside a private Postgres.
//
//	pgtest go test ./...
//	pgtest -durable -set shared_buffers=1GB -set wal_compression=lz4 internal/tools/curves
//
// With -durable the server writes to disk as in production; -set sets a server option; -bin has the folder of the programs
// of another version, also for clusters that the command starts.
// It starts the server, sets DEADMAN_TEST_DATABASE_URL for the command, and stops the
// server when the command ends. Its exit code is the command's.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"deadman/internal/store/storetest"
)

func main() {
	var settings storetest.Settings
	flags := flag.NewFlagSet("pgtest", flag.ExitOnError) // the global one has flags of the tests' libraries
	flags.BoolVar(&settings.Durable, "durable", false, "have the server write to disk as in production")
	flags.Func("set", "a `name=value` for the server; may be repeated", func(option string) error {
		settings.Options = append(settings.Options, option)
		return nil
	})
	flags.Func("bin", "the `folder` of initdb and postgres (default: the newest version of the machine)", func(folder string) error {
		return os.Setenv(storetest.ProgramsEnvironment, folder)
	})
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: pgtest [-bin folder] [-durable] [-set name=value]... command [argument...]")
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // it exits on errors
	if flags.NArg() == 0 {
		flags.Usage()
		os.Exit(2)
	}
	code, err := run(settings, flags.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
	}
	os.Exit(code)
}

func run(settings storetest.Settings, command []string) (code int, err error) {
	dsn := os.Getenv(storetest.Environment)
	if dsn == "" {
		c, err := storetest.StartCluster(settings)
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
			_ = cmd.Process.Signal(s) // it may have just ended
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}
