package ha_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a server that can be killed and started again. It ends with this process.
type process struct {
	t      *testing.T
	name   string
	dir    string // of its log
	as     *syscall.Credential
	env    []string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts the server.
func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, log, log
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	cmd, exited := p.cmd, make(chan struct{})
	p.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
}

// kill kills the server with SIGKILL and waits for its end. It may be called again.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// stop stops the server with SIGTERM, and kills it if it does not end.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		p.t.Errorf("%s does not end", p.name)
		p.kill()
	}
}

// tail returns the last lines of the server's log.
func (p *process) tail(lines int) string {
	text, err := os.ReadFile(filepath.Join(p.dir, p.name+".log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// keeper ends the Postgres servers and removes the folder when this process ends in any way: Patroni starts Postgres as a
// daemon. A server's working folder tells that a process is the one of its file.
const keeper = `
cat <&3 >/dev/null
for file in "$1"/pg*/data/postmaster.pid; do
	[ -f "$file" ] || continue
	pid=$(head -n 1 "$file")
	if [ "$(readlink "/proc/$pid/cwd")" = "$(dirname "$file")" ]; then
		kill -QUIT "$pid"
		while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
	fi
done
rm -rf "$1"`

// newFolder creates the folder of all servers, and removes it after the test, together with the Postgres servers in it.
func newFolder(t *testing.T) string {
	t.Helper()
	parent := "/dev/shm" // the servers sync each commit
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "deadman-ha-") //nolint:usetesting // the keeper removes it, also if this process is killed
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // another account has folders in it
		t.Fatal(err)
	}
	held, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", keeper, "keeper", dir)
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{held}, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	t.Cleanup(func() {
		_ = hold.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the folder %s stays: %v", dir, err)
		}
	})
	return dir
}

// killTree kills a process and its children.
func killTree(pid int) {
	for _, child := range append(children(pid), pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
	}
}

// children returns the child processes of a process.
func children(parent int) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range folders {
		var state string
		var of int
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if _, err := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &of); err != nil || of != parent {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// patience bounds a hang, on busy machines, too.
const patience = 3 * time.Minute

// within polls until ok returns no error, and fails the test with the last error after the patience.
func within(t *testing.T, what string, ok func(context.Context) error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := ok(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
		pause(t, 200*time.Millisecond)
	}
}

// pause lets time pass for the servers. No test asserts its length.
func pause(t *testing.T, span time.Duration) {
	t.Helper()
	select {
	case <-time.After(span):
	case <-t.Context().Done():
		t.Fatal("the test was ended")
	}
}
