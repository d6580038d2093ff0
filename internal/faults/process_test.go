package faults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"deadman/server"
)

// lease is short, so that takeovers are fast.
const lease = 3 * time.Second

// binary is the program under test, and breakable the same program with failpoints. Each is built once.
var (
	binary    = build()
	breakable = build("-tags", "faultpoints")
)

func build(flags ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if len(flags) > 0 && *other != "" {
			return *other, nil
		}
		path := filepath.Join(built, "deadman"+strings.Join(flags, ""))
		args := append(append([]string{"build"}, flags...), "-o", path, "../../cmd/deadman")
		out, err := exec.Command("go", args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
		return path, nil
	})
}

// built is the folder of the programs.
var built string

func TestMain(m *testing.M) {
	if role := os.Getenv(brokerRole); role != "" {
		runBroker(role)
	}
	zerolog.SetGlobalLevel(zerolog.WarnLevel) // the proxies would log each fault
	var err error
	if built, err = os.MkdirTemp("", "deadman-faults"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// process is one running node.
type process struct {
	*exec.Cmd
	t       *testing.T
	name    string
	at      server.Endpoints // once serving is closed
	serving chan struct{}
	exited  chan struct{}
}

// startNode starts a node in another process and waits until it serves.
func startNode(t *testing.T, name string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, path, name, nil, func(line string) { t.Logf("%s: %s", name, line) }, append([]string{"--rules", "testdata", "--lease", lease.String()}, args...)...)
	p.awaitServing(2 * time.Minute)
	return p
}

// startProcess starts a node in another process, with an extended environment, and passes its log lines to log.
func startProcess(t *testing.T, path, name string, env []string, log func(line string), args ...string) *process {
	t.Helper()
	args = append([]string{"serve", "--http-addr", "127.0.0.1:0", "--log-format", "json"}, args...)
	p := &process{Cmd: exec.Command(path, args...), t: t, name: name, serving: make(chan struct{}), exited: make(chan struct{})}
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Env = append(os.Environ(), env...)
	out, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout = io.Discard
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.follow(out, log)
		_ = p.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	return p
}

// follow passes on the node's log and reads the node's endpoints from it.
func (p *process) follow(out io.Reader, log func(string)) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, HTTP, NATS string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		if line.Msg == "serving" {
			p.at = server.Endpoints{HTTP: line.HTTP, NATS: line.NATS}
			close(p.serving)
		}
		if line.Msg != "alert" {
			log(lines.Text())
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Errorf("%s to %s: %v", s, p.name, err)
	}
}

// kill kills the node, if it has not ended yet.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = p.Process.Kill()
		<-p.exited
	}
}

// stop stops the node with SIGTERM and waits for its end.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		if code := p.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("%s exits with %d after SIGTERM", p.name, code)
		}
	case <-time.After(time.Minute):
		p.t.Errorf("%s does not end after SIGTERM", p.name)
		p.kill()
	}
}

// eventually polls until ok, or fails the test with the description of the condition.
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

// awaitServing waits until the program serves.
func (p *process) awaitServing(within time.Duration) {
	p.t.Helper()
	select {
	case <-p.serving:
	case <-p.exited:
		p.t.Fatalf("node %s ended at its start", p.name)
	case <-time.After(within):
		p.t.Fatalf("node %s does not serve", p.name)
	}
}

// request sends a request to the program, reads its answer, and returns the time that it took. token may be empty, and answer nil.
func (p *process) request(method, path, token, body string, answer any) time.Duration {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.at.HTTP+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "name: ") {
		request.Header.Set("Content-Type", "application/yaml")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	begun := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || response.StatusCode >= 300 {
		p.t.Fatalf("%s %s: %s, %v: %s", method, path, response.Status, err, text)
	}
	return time.Since(begun)
}
