package faults_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/bus"
	"deadman/faults"
	"deadman/store/storetest"
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

// cluster is one database and one broker, with as many nodes as a test starts.
type cluster struct {
	*testing.T
	faults.Checker
	dsn, url string
	js       jetstream.JetStream
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server, err := bus.StartServer(bus.ServerOptions{Dir: t.TempDir(), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c := &cluster{T: t, dsn: storetest.Postgres(t), url: server.ClientURL()}
	if c.DB, err = sql.Open("pgx", c.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.DB.Close() })
	if c.NATS, err = nats.Connect(c.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.NATS.Close)
	if c.js, err = jetstream.New(c.NATS); err != nil {
		t.Fatal(err)
	}
	return c
}

// process is one running node.
type process struct {
	*exec.Cmd
	t      *testing.T
	name   string
	URL    string
	exited chan struct{}
}

// start starts a node and waits until it serves.
func (c *cluster) start(name string, more ...string) *process {
	c.Helper()
	path, err := binary()
	if err != nil {
		c.Fatal(err)
	}
	args := append([]string{
		"serve", "--database-url", c.dsn, "--nats-url", c.url, "--http-addr", "127.0.0.1:0",
		"--rules", "testdata", "--lease", lease.String(), "--log-format", "json",
	}, more...)
	p := &process{Cmd: exec.Command(path, args...), t: c.T, name: name, exited: make(chan struct{})}
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.StderrPipe()
	if err != nil {
		c.Fatal(err)
	}
	p.Stdout = io.Discard
	if err := p.Start(); err != nil {
		c.Fatal(err)
	}
	serving := make(chan string, 1)
	go func() {
		p.follow(out, serving)
		_ = p.Wait()
		close(p.exited)
	}()
	c.Cleanup(func() { p.kill() })
	select {
	case p.URL = <-serving:
	case <-p.exited:
		c.Fatalf("node %s ended at its start", name)
	case <-time.After(30 * time.Second):
		c.Fatalf("node %s does not serve", name)
	}
	return p
}

// follow passes the node's log on and finds out where it serves.
func (p *process) follow(out io.Reader, serving chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Level, Msg, HTTP string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		if line.Msg == "serving" {
			serving <- line.HTTP
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
func (c *cluster) eventually(within time.Duration, what string, ok func() bool) time.Duration {
	c.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > within {
			c.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// holders returns how many shards each live node holds, by the database's word.
func (c *cluster) holders() map[string]int {
	c.Helper()
	rows, err := c.DB.Query(`SELECT n.name, count(*) FROM shard_lease l JOIN node n ON n.id = l.node
		WHERE l.expires_at > now() GROUP BY n.name`)
	if err != nil {
		c.Fatal(err)
	}
	defer rows.Close()
	held := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			c.Fatal(err)
		}
		held[name[strings.LastIndex(name, "/")+1:]] += n
	}
	if err := rows.Err(); err != nil {
		c.Fatal(err)
	}
	return held
}

// spread reports whether exactly these nodes hold all 16 shards, evenly.
func (c *cluster) spread(nodes ...*process) bool {
	held := c.holders()
	sum, least, most := 0, 16, 0
	for _, p := range nodes {
		n := held[fmt.Sprint(p.Process.Pid)]
		sum, least, most = sum+n, min(least, n), max(most, n)
	}
	return sum == 16 && most-least <= 1
}

// escalated counts the orders whose last step was said.
func (c *cluster) escalated() int {
	c.Helper()
	return escalated(c.T, c.Checker)
}

// publish publishes an order's event and returns once the stream has it.
func (c *cluster) publish(subject, id string) error {
	ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
	defer cancel()
	_, err := c.js.Publish(ctx, subject, fmt.Appendf(nil, `{"id":%q}`, id))
	return err
}
