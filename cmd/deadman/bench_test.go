package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// TestBench checks that bench measures SQLite by default, with text and JSON output.
func TestBench(t *testing.T) {
	args := []string{"bench", "--jobs", "200", "--rounds", "1", "--shape", "finish,mixed"}
	text := runBinary(t, nil, args...)
	if text.code != 0 {
		t.Fatalf("%+v", text)
	}
	for _, want := range []string{"RESULT deadman-finish floor n=200 ", "RESULT deadman-mixed engine n=200 ", "\nMeasured on SQLite in /tmp:\nSHAPE ", "RATIO", "MEMORY"} {
		if !strings.Contains(text.out, want) {
			t.Errorf("it does not contain %q:\n%s", want, text.out)
		}
	}
	values := runBinary(t, nil, append(args, "-o", "json")...)
	var got struct{ Summary []bench.Summary }
	if err := json.Unmarshal([]byte(values.out), &got); values.code != 0 || err != nil || len(got.Summary) != 4 {
		t.Errorf("%v: %+v", err, values)
	}
}

// TestBenchTable checks that the table has the values of each way, no column without values, and the rates of the
// RESULT lines.
func TestBenchTable(t *testing.T) {
	round := bench.Result{Shape: bench.Latency, Way: bench.Node, Jobs: 10_000, Took: 898_765 * time.Microsecond}
	answered := round
	answered.P50, answered.P99, answered.Most = 7*time.Millisecond, 61_250*time.Microsecond, 1_234_400*time.Microsecond
	read := bench.Result{Shape: bench.Due, Way: "pending=7", Jobs: 1, Took: time.Second, Buffers: 2227, WAL: 3}
	idle := bench.Result{Shape: bench.Finish, Way: bench.OldSnapshot, Jobs: 1, Took: time.Second, Idle: 3.96}
	for name, c := range map[string]struct {
		rounds []bench.Result
		want   string
	}{
		"rates":   {[]bench.Result{round}, "SHAPE JOBS/S|latency 11,126"},
		"latency": {[]bench.Result{answered}, "SHAPE JOBS/S P50 P99 MAX|latency 11,126 7.00 ms 61.2 ms 1,234 ms"},
		"some of each": {
			[]bench.Result{answered, read, idle},
			"SHAPE JOBS/S WAL/JOB P50 P99 MAX PAGES/READ IDLE PAGES/SHARD|latency 11,126 – 7.00 ms 61.2 ms 1,234 ms – –|due 1 3 B – – – 2,227 –|finish 1 – – – – – 4.0",
		},
		"another way": {
			[]bench.Result{{Shape: bench.Finish, Way: bench.Floor, Jobs: 3, Took: 2 * time.Second}, idle},
			"SHAPE JOBS/S RATIO IDLE PAGES/SHARD|finish 2 1 –|finish 1 0.67 4.0",
		},
	} {
		var out, errOut bytes.Buffer
		if err := printBench(inProcess(&out, &errOut), bench.Summarize(c.rounds)); err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(c.want, "|")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(rows) {
			t.Fatalf("%s:\n%s", name, out.String())
		}
		for i, line := range lines {
			// Drops the variant, and the columns min/s and max/s, equal to the rate here.
			words := strings.Fields(line)
			words = append(append(words[:1:1], words[2]), words[5:]...)
			if got := strings.Join(words, " "); got != rows[i] {
				t.Errorf("%s: %q, want %q", name, got, rows[i])
			}
		}
		for _, r := range c.rounds {
			if rate := " rate=" + strings.ReplaceAll(benchRate(r.Rate()), ",", ""); !strings.Contains(r.String()+" ", rate+" ") {
				t.Errorf("%s: %s, want%s", name, r, rate)
			}
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for flag, want := range map[string]string{
		"--shape=quick": `unknown shape "quick"`, "--jobs=1": "from 2 to", "--rounds=0": "from 1 to 100", "--nodes=3": "SQLite supports one node", "--nodes=99": "from 1 to 16", "--shape=": "--shape is empty",
		"--pending=-1": "from 0 to", "--shape=due": "set --pending to a larger number", "--scattered": "--database-url", "--old-snapshot": "--database-url",
		"--jobs=3000000 --shape=finish,create":                                       "at most 2000000",
		"--scattered --database-url=postgres://none":                                 "require 4,000,000 pending jobs",
		"--nodes=3 --database-url=postgres://none --shape=create,events":             "--nodes: supported only by the shapes finish, reschedule, mixed",
		"--old-snapshot --database-url=postgres://none --shape=due --pending=400000": "--old-snapshot: supported only by the shapes finish, reschedule, mixed",
	} {
		if got := runBinary(t, nil, append([]string{"bench"}, strings.Fields(flag)...)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// TestBenchFlagsDependOnShape checks that a flag for only one of several shapes is accepted.
func TestBenchFlagsDependOnShape(t *testing.T) {
	for _, s := range []bench.Shape{bench.Finish, bench.Reschedule, bench.Mixed} {
		o := bench.Options{DatabaseURL: "postgres://none", Shapes: []bench.Shape{bench.Latency, s, bench.Create}, Jobs: 2, Rounds: 1, Nodes: 2, OldSnapshot: true}
		if err := checkBench(o); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestBenchIsInterrupted checks that an interrupted run reports just that.
func TestBenchIsInterrupted(t *testing.T) {
	cmd := command(t.Context(), t, nil, "bench", "--jobs", "200", "--rounds", "100")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Error("the output is empty")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	for lines.Scan() { // output so far
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || output.String() != "deadman: interrupted\n" {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), output.String())
	}
}

// TestBenchNamesLeftovers checks that the schema left by an earlier run is reported and kept.
func TestBenchNamesLeftovers(t *testing.T) {
	cluster, err := storetest.StartCluster(storetest.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(t.Context(), cluster.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // the test is complete
	if _, err := conn.Exec(t.Context(), `CREATE SCHEMA deadman_bench_0123abcd`); err != nil {
		t.Fatal(err)
	}
	got := runBinary(t, nil, "bench", "--jobs", "200", "--rounds", "1", "--database-url", cluster.DSN)
	if want := "schema deadman_bench_0123abcd (1 MB) belongs to"; got.code != 0 || !strings.HasPrefix(got.err, want) || !strings.Contains(got.err, "DROP SCHEMA deadman_bench_0123abcd CASCADE\n") {
		t.Errorf("%+v", got)
	}
	if want := fmt.Sprintf(" at 127.0.0.1:%d, database postgres:\nSHAPE ", cluster.Port); !strings.Contains(got.out, "\nMeasured on Postgres ") || !strings.Contains(got.out, want) {
		t.Errorf("%s\nlacks %q", got.out, want)
	}
	if _, err := conn.Exec(t.Context(), `DROP SCHEMA deadman_bench_0123abcd`); err != nil { // it exists
		t.Error(err)
	}
}
