package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMemoryTarget checks that the memory limit follows the live heap and stays within the cgroup.
func TestMemoryTarget(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ live, cgroup, want uint64 }{
		{10 * mb, 0, 350 * mb},
		{300 * mb, 0, 600 * mb},
		{300 * mb, 1600 * mb, 600 * mb},
		{900 * mb, 1600 * mb, 1600 * mb},
		{10 * mb, 200 * mb, 200 * mb},
	} {
		if got := goalOf(c.live, c.cgroup); got != c.want {
			t.Errorf("%d MB in use, %d MB of the cgroup: %d MB, want %d", c.live/mb, c.cgroup/mb, got/mb, c.want/mb)
		}
	}
}

// TestMemoryLimitOfCgroup checks that the limit of the process's cgroup is found. A child of this test runs in its
// own cgroup.
func TestMemoryLimitOfCgroup(t *testing.T) {
	if os.Getenv("DEADMAN_TEST_CGROUP") != "" {
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // until it is in its cgroup
			t.Fatal(err)
		}
		fmt.Printf("limit=%d\n", memoryLimit())
		return
	}
	t.Setenv("GOMEMLIMIT", "")
	for _, c := range []struct{ root, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		dir := filepath.Join(c.root, "deadman-limit-"+strconv.Itoa(os.Getpid()))
		if _, err := os.Stat(filepath.Join(c.root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, c.limit), []byte("1000000000"), 0o600) != nil {
			continue
		}
		child := exec.Command(os.Args[0], "-test.run=^TestMemoryLimitOfCgroup$")
		child.Env = append(os.Environ(), "DEADMAN_TEST_CGROUP=1")
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		child.Stdout = &out
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(child.Process.Pid)), 0o600)
		_, writeErr := in.Write([]byte("x"))
		if err := errors.Join(err, writeErr, in.Close(), child.Wait()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "limit=7999") {
			t.Errorf("of 1 GB: %s", out.String())
		}
		return
	}
	t.Skip("no cgroup can be made here")
}
