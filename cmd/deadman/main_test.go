package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"deadman/internal/testdisk"
)

// asDeadman makes this test binary run as deadman.
const asDeadman = "DEADMAN_TEST_AS_DEADMAN"

func TestMain(m *testing.M) {
	if os.Getenv(asDeadman) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(testdisk.InMemory(m))
}

// result is the result of a run of the program.
type result struct {
	code     int
	out, err string
}

// runBinary runs the program in its own process and folder.
func runBinary(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := command(ctx, t, env, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func command(ctx context.Context, t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{
		asDeadman + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir,
		"GOCOVERDIR=" + t.TempDir(), // a binary built with -cover complains without one
	}, env...)
	return cmd
}

// inProcess returns the program with a fixed time, for tests of its output.
func inProcess(out, errOut *bytes.Buffer, env ...string) *cli {
	p := newCLI(strings.NewReader(""), out, errOut, env)
	p.zone = time.UTC
	p.now = func() time.Time { return time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC) }
	return p
}
