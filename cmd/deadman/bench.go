package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/internal/bench"
)

// Limits of a benchmark.
const (
	benchJobs   = 100_000 // default
	benchMost   = 50_000_000
	benchRounds = 5
	benchNodes  = 16
)

func newBenchCmd(io *cli) *cobra.Command {
	o := bench.Options{}
	shapes := []string{string(bench.Finish)}
	cmd := &cobra.Command{
		Use: "bench", Short: "Benchmark job throughput on a database",
		Long: `Measures the number of due jobs that a node checks and records per second, and compares it with a
baseline: plain SQL that reads, decodes, evaluates and writes the same data without the engine.
Both are measured in turn; the medians are compared.

Without --database-url it uses SQLite in a temporary folder. On Postgres it creates a schema and
drops it at the end; existing data is not touched. The benchmark puts a heavy load on the server;
do not run it on a production database.

Shapes:
  finish      each job raises an alert and moves to the history
  reschedule  each job is checked and stays pending
  mixed       half of each
  create      jobs are created over HTTP, 10,000 per request
  events      jobs are created by events of a stream
  due         due jobs are read beside 300,000 pending jobs and beside --pending
  latency     time from a slot until the alerts of all its jobs are received, on a full node

--pending inserts further pending jobs once; each takes about 500 bytes of disk.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range shapes {
				o.Shapes = append(o.Shapes, bench.Shape(s))
			}
			if err := checkBench(o); err != nil {
				return err
			}
			return runBench(cmd.Context(), io, o)
		},
	}
	f := cmd.Flags()
	textFlagVar(f, &o.DatabaseURL, "database-url", "url", "", "Postgres URL (default: SQLite)")
	f.StringSliceVar(&shapes, "shape", shapes, strings.Join(benchShapes(), ", ")+"; comma-separated")
	f.IntVar(&o.Jobs, "jobs", benchJobs, "due jobs per round")
	f.IntVar(&o.Rounds, "rounds", benchRounds, "measurements of each variant")
	f.IntVar(&o.Nodes, "nodes", 1, "also measure this number of nodes on one database (finish, reschedule, mixed)")
	f.IntVar(&o.Pending, "pending", 0, "further pending jobs that are not due")
	f.BoolVar(&o.Scattered, "scattered", false, "place each due job on a separate page, among pending jobs")
	f.BoolVar(&o.OldSnapshot, "old-snapshot", false, "also measure with an old open transaction on the server (finish, reschedule, mixed)")
	complete(cmd, "shape", completeWords(benchShapes()...))
	return cmd
}

func benchShapes() (names []string) {
	for _, s := range bench.Shapes {
		names = append(names, string(s))
	}
	return names
}

// checkBench returns an error for options that can't be measured.
func checkBench(o bench.Options) error {
	for _, s := range o.Shapes {
		if !slices.Contains(bench.Shapes, s) {
			return usage("--shape: unknown shape %q; available: %s", s, strings.Join(benchShapes(), ", "))
		}
	}
	switch {
	case len(o.Shapes) == 0:
		return usage("--shape is empty; available: %s", strings.Join(benchShapes(), ", "))
	case o.Jobs < 2 || o.Jobs > benchMost:
		return usage("--jobs is %d; it must be from 2 to %d", o.Jobs, benchMost)
	case o.Rounds < 1 || o.Rounds > 100:
		return usage("--rounds is %d; it must be from 1 to 100", o.Rounds)
	case o.Nodes < 1 || o.Nodes > benchNodes:
		return usage("--nodes is %d; it must be from 1 to %d", o.Nodes, benchNodes)
	case o.Nodes > 1 && o.DatabaseURL == "":
		return usage("--nodes: SQLite supports one node; set --database-url to a Postgres URL")
	case o.Nodes > 1 && !slices.ContainsFunc(o.Shapes, bench.Shape.Drains):
		return usage("--nodes: %s", benchDrains())
	}
	if (slices.Contains(o.Shapes, bench.Create) || slices.Contains(o.Shapes, bench.Events)) && o.Jobs > bench.CreatedMost {
		return usage("--jobs is %d; --shape create and events hold all jobs in memory and support at most %d", o.Jobs, bench.CreatedMost)
	}
	return checkBacklog(o)
}

// checkBacklog returns an error for backlog options that can't be measured.
func checkBacklog(o bench.Options) error {
	switch {
	case o.Pending < 0 || o.Pending > benchMost:
		return usage("--pending is %d; it must be from 0 to %d", o.Pending, benchMost)
	case slices.Contains(o.Shapes, bench.Due) && o.Pending <= bench.FewPending:
		return usage("--shape due compares with %s pending jobs; set --pending to a larger number", humanize.Comma(bench.FewPending))
	case o.Scattered && o.DatabaseURL == "":
		return usage("--scattered requires Postgres; set --database-url")
	case o.Scattered && o.Pending < bench.ScatteredAt*o.Jobs:
		return usage("--scattered: %s due jobs on separate pages require %s pending jobs; increase --pending or reduce --jobs",
			humanize.Comma(int64(o.Jobs)), humanize.Comma(int64(bench.ScatteredAt*o.Jobs)))
	case o.OldSnapshot && o.DatabaseURL == "":
		return usage("--old-snapshot requires Postgres; set --database-url")
	case o.OldSnapshot && !slices.ContainsFunc(o.Shapes, bench.Shape.Drains):
		return usage("--old-snapshot: %s", benchDrains())
	}
	return nil
}

// benchDrains returns the advice for flags that only draining shapes support.
func benchDrains() string {
	var names []string
	for _, s := range bench.Shapes {
		if s.Drains() {
			names = append(names, string(s))
		}
	}
	return "supported only by the shapes " + strings.Join(names, ", ") + "; choose one with --shape"
}

func runBench(ctx context.Context, io *cli, o bench.Options) (err error) {
	if o.Dir, err = os.MkdirTemp("", "deadman-bench"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(o.Dir) }() // it is in the system's temporary folder
	where := "SQLite in " + os.TempDir()
	if o.DatabaseURL != "" {
		server, err := bench.ReadServer(ctx, o.DatabaseURL)
		if err != nil {
			return err
		}
		where = fmt.Sprintf("Postgres %s at %s, database %s", server.Version, server.Address, server.Database)
		printLeftSchemas(io, server.Left)
	}
	bar := progressBar{out: io.err, on: isTerminal(io.err)}
	for _, s := range o.Shapes {
		bar.all += o.WaysOf(s) * o.Rounds
	}
	if o.Pending > 0 {
		bar.all++
	}
	bar.show(0, "")
	o.Progress = func(what string, done, all int) {
		bar := progressBar{out: io.err, on: bar.on, all: all}
		bar.clear()
		bar.show(done, what)
	}
	rounds := 0
	o.Measured = func(r bench.Result) {
		rounds++
		bar.clear()
		if io.output == asText {
			fmt.Fprintln(io.out, r)
		}
		bar.show(rounds, fmt.Sprintf("%s by the %s: %s/s", r.Shape, r.Way, benchRate(r.Rate())))
	}
	results, err := bench.Run(ctx, o)
	bar.clear()
	if err != nil {
		return err
	}
	var advice []string
	if o.DatabaseURL != "" {
		if advice, err = bench.Advice(ctx, o.DatabaseURL); err != nil {
			return err
		}
	}
	all := bench.Summarize(results)
	if io.output == asJSON {
		return writeValue(io.out, map[string]any{"summary": all, "rounds": results, "advice": advice})
	}
	return printBenchReport(io, where, all, advice)
}

// printBenchReport prints the medians of a benchmark, and advice on the settings of the database server.
func printBenchReport(io *cli, where string, all []bench.Summary, advice []string) error {
	fmt.Fprintf(io.out, "\nMeasured on %s:\n", sanitize(where))
	if err := printBench(io, all); err != nil {
		return err
	}
	for i, line := range advice {
		if i == 0 {
			fmt.Fprintln(io.out, "\nSettings of the database server:")
		}
		fmt.Fprintln(io.out, "*", line)
	}
	return nil
}

// printLeftSchemas lists schemas left by earlier runs. It drops none, because another run may be using it.
func printLeftSchemas(io *cli, all []bench.Left) {
	for _, l := range all {
		fmt.Fprintf(io.err, "schema %s (%s MB) belongs to another benchmark; if none is running, remove it: DROP SCHEMA %[1]s CASCADE\n",
			l.Schema, humanize.Comma(max(l.Bytes>>20, 1)))
	}
}

// progressBar shows progress on a terminal.
type progressBar struct {
	out io.Writer
	on  bool
	all int
}

const barWidth = 30

func (b progressBar) show(done int, what string) {
	if b.on {
		full := barWidth * done / b.all
		fmt.Fprintf(b.out, "\r%s%s %d of %d  %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), done, b.all, what)
	}
}

func (b progressBar) clear() {
	if b.on {
		fmt.Fprint(b.out, "\r\033[K")
	}
}

// benchColumn is a column of the table of medians.
type benchColumn struct {
	name string
	of   func(bench.Summary) cell // without text: not applicable to the way
	none string                   // shown instead
}

func column(name string, of func(bench.Summary) cell) benchColumn {
	return benchColumn{name, of, "–"}
}

// benchColumns lists all columns. A column without values is omitted.
var benchColumns = []benchColumn{
	column("shape", func(s bench.Summary) cell { return cellOf(string(s.Shape)) }),
	column("variant", func(s bench.Summary) cell { return cellOf(s.Way) }),
	column("jobs/s", func(s bench.Summary) cell { return cellOf(benchRate(s.Rate)) }),
	column("min/s", func(s bench.Summary) cell { return dimCell("%s", benchRate(s.Least)) }),
	column("max/s", func(s bench.Summary) cell { return dimCell("%s", benchRate(s.Most)) }),
	{"ratio", func(s bench.Summary) cell { return colouredCell(bold, formatIf(!s.First, "%.2f", s.OfFloor)) }, "1"},
	column("WAL/job", func(s bench.Summary) cell { return cellOf(formatIf(s.WAL > 0, "%s B", humanize.Comma(s.WAL))) }),
	column("CPU/job", func(s bench.Summary) cell {
		return cellOf(formatIf(s.CPU > 0, "%.1f µs", float64(s.CPU.Nanoseconds())/1e3))
	}),
	column("memory", func(s bench.Summary) cell {
		return cellOf(formatIf(s.Memory > 0, "%s MB", humanize.Comma(s.Memory>>20)))
	}),
	column("p50", func(s bench.Summary) cell { return cellOf(milliseconds(s.P50)) }),
	column("p99", func(s bench.Summary) cell { return cellOf(milliseconds(s.P99)) }),
	column("max", func(s bench.Summary) cell { return cellOf(milliseconds(s.Longest)) }),
	column("pages/read", func(s bench.Summary) cell { return cellOf(formatIf(s.Buffers > 0, "%s", humanize.Comma(s.Buffers))) }),
	column("idle pages/shard", func(s bench.Summary) cell { return cellOf(formatIf(s.Idle > 0, "%.1f", s.Idle)) }),
}

// printBench prints the medians as a table.
func printBench(io *cli, all []bench.Summary) error {
	var header []string
	rows := make([][]cell, len(all))
	for _, column := range benchColumns {
		var cells []cell
		has := false
		for _, s := range all {
			c := column.of(s)
			if has = has || c.text != ""; c.text == "" {
				c = dimCell("%s", column.none)
			}
			cells = append(cells, c)
		}
		if !has {
			continue
		}
		header = append(header, column.name)
		for i, c := range cells {
			rows[i] = append(rows[i], c)
		}
	}
	t := newTable(io.out, io.palette, header...)
	for _, row := range rows {
		t.row(row...)
	}
	return t.fit(terminalWidth(io.out)).end()
}

// formatIf formats a text, or returns an empty one if the value is unknown.
func formatIf(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// benchRate formats a rate, rounded as in the RESULT lines.
func benchRate(rate float64) string { return humanize.Comma(int64(math.RoundToEven(rate))) }

// milliseconds formats a duration with three digits or more. A zero gives an empty text.
func milliseconds(d time.Duration) string {
	switch ms := d.Seconds() * 1e3; {
	case ms <= 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return humanize.Comma(int64(math.Round(ms))) + " ms"
	}
}
