package faults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"deadman"
)

// lease is short, so that takeovers come soon.
const lease = 3 * time.Second

// binary is the program under test, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "deadman-faults")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "deadman")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/deadman").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is one running node.
type process struct {
	*exec.Cmd
	t      *testing.T
	name   string
	at     deadman.Endpoints
	exited chan struct{}
}

// launch starts a node in a process of its own and waits until it serves.
func launch(t *testing.T, name string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"serve", "--http-addr", "127.0.0.1:0", "--rules", "testdata", "--lease", lease.String(), "--log-format", "json",
	}, args...)
	p := &process{Cmd: exec.Command(path, args...), t: t, name: name, exited: make(chan struct{})}
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout = io.Discard
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	serving := make(chan deadman.Endpoints, 1)
	go func() {
		p.follow(out, serving)
		_ = p.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	select {
	case p.at = <-serving:
	case <-p.exited:
		t.Fatalf("node %s ended at its start", name)
	case <-time.After(30 * time.Second):
		t.Fatalf("node %s does not serve", name)
	}
	return p
}

// follow passes the node's log on and finds out where it serves.
func (p *process) follow(out io.Reader, serving chan<- deadman.Endpoints) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, HTTP, NATS string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		if line.Msg == "serving" {
			serving <- deadman.Endpoints{HTTP: line.HTTP, NATS: line.NATS}
		}
		if line.Msg != "alert" {
			p.t.Logf("%s: %s", p.name, lines.Text())
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Errorf("%s to %s: %v", s, p.name, err)
	}
}

// kill ends the node at once, where it has not ended yet.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = p.Process.Kill()
		<-p.exited
	}
}

// stop asks the node to end and waits for it.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		if code := p.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("%s exits with %d after SIGTERM", p.name, code)
		}
	case <-time.After(15 * time.Second):
		p.t.Errorf("%s does not end after SIGTERM", p.name)
		p.kill()
	}
}

// eventually polls until ok, or fails the test with what it waited for.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}
