package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/internal/bench"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// ticks is the unit of CPU times in /proc per second: the same on every Linux.
const ticks = 100

// BenchmarkIdle measures the memory and CPU time of a node with DEADMAN_BENCH_JOBS pending jobs, of which none is due
// and whose rule has slots every second. The database and the broker are other processes.
func BenchmarkIdle(b *testing.B) {
	dsn := durable(b)
	pending := setting(b, "DEADMAN_BENCH_JOBS", 1_000_000)
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(b), Addr: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	node := startNode(b, dsn, server.ClientURL(), bench.Document)
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if err := bench.FillPending(b.Context(), pool, pending); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		const span = 30 * time.Second
		before := cpu(b, node)
		time.Sleep(span) // measures an idle node
		b.ReportMetric(100*(cpu(b, node)-before).Seconds()/span.Seconds(), "%core")
		b.ReportMetric(float64(resident(b, node))/(1<<20), "MB")
	}
}

// startNode builds and starts a node with a rule and settings, and returns its process id.
func startNode(b *testing.B, dsn, url, rule string, settings ...string) (pid int) {
	b.Helper()
	dir := b.TempDir()
	binary, rules := filepath.Join(dir, "deadman"), filepath.Join(dir, "rules")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/deadman").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.Mkdir(rules, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(rules, "bench.yaml"), []byte(rule), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{
		"serve", "--database-url", dsn, "--nats-url", url,
		"--http-addr", "127.0.0.1:0", "--rules", rules, "--log-format", "json",
	}, settings...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { // the benchmark's variables are no settings of a node
		return strings.HasPrefix(s, "DEADMAN_")
	})
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(`"serving"`)) {
			go io.Copy(io.Discard, out) //nolint:errcheck // ends with the process
			return cmd.Process.Pid
		}
	}
	b.Fatal("the node does not serve")
	return 0
}

// cpu returns the CPU time used by a process.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skipf("the node's CPU time cannot be read here: %v", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	sum := 0
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks
}

// resident returns the resident memory of a process, in bytes.
func resident(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Skipf("the node's memory cannot be read here: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
