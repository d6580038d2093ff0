package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

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

func (p *cli) benchCommand() *cobra.Command {
	o := bench.Options{}
	shapes := []string{string(bench.Finish)}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure how many jobs a second a database lets a node do",
		Long: `Measures how many due jobs a second a node looks at and records, next to the floor: bare SQL
that reads, decodes, evaluates and writes the same, with no engine. The ways are measured in
turn, and the medians compared.

Without --database-url it is SQLite in a folder that is made and taken away. In a Postgres it
makes a schema of its own, and drops it at the end; what is there already is not touched. The
server is busy meanwhile: not what one does to a database that others need at the moment.

The shapes: finish (each job says an alert and goes to the history), reschedule (each is looked
at and waits on), mixed (half and half), create (waits are asked for by HTTP, 10,000 in a
request), events (waits begin by the events of a stream), due (due jobs are read, beside 300,000
that wait and beside --pending) and latency (a whole node says an alert of each job of one slot: how long after
it they are heard).

--pending puts in jobs that wait besides, once: about 500 bytes of disk each.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range shapes {
				o.Shapes = append(o.Shapes, bench.Shape(s))
			}
			if err := checkBench(o); err != nil {
				return err
			}
			return p.bench(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.DatabaseURL, "database-url", "", "a Postgres to measure on (default: SQLite)")
	f.StringSliceVar(&shapes, "shape", shapes, strings.Join(benchShapes(), ", ")+"; several with commas")
	f.IntVar(&o.Jobs, "jobs", benchJobs, "due jobs of a round")
	f.IntVar(&o.Rounds, "rounds", benchRounds, "times that each way is measured")
	f.IntVar(&o.Nodes, "nodes", 1, "measure so many nodes on one database, too (finish, reschedule, mixed)")
	f.IntVar(&o.Pending, "pending", 0, "jobs that wait besides, and are not due")
	f.BoolVar(&o.Scattered, "scattered", false, "have the due jobs lie among the pending ones, each on a page of its own")
	f.BoolVar(&o.OldSnapshot, "old-snapshot", false, "measure beside an old transaction on the server, too (finish, reschedule, mixed)")
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
			return usage("--shape: there is no %q; there are %s", s, strings.Join(benchShapes(), ", "))
		}
	}
	switch {
	case len(o.Shapes) == 0:
		return usage("--shape: name one of %s", strings.Join(benchShapes(), ", "))
	case o.Jobs < 2 || o.Jobs > benchMost:
		return usage("--jobs: %d is not from 2 to %d", o.Jobs, benchMost)
	case o.Rounds < 1 || o.Rounds > 100:
		return usage("--rounds: %d is not from 1 to 100", o.Rounds)
	case o.Nodes < 1 || o.Nodes > benchNodes:
		return usage("--nodes: %d is not from 1 to %d", o.Nodes, benchNodes)
	case o.Nodes > 1 && o.DatabaseURL == "":
		return usage("--nodes: SQLite has one node; give a Postgres with --database-url")
	case o.Nodes > 1 && !slices.ContainsFunc(o.Shapes, bench.Shape.Drains):
		return usage("--nodes: %s", benchDrains())
	}
	if (slices.Contains(o.Shapes, bench.Create) || slices.Contains(o.Shapes, bench.Events)) && o.Jobs > bench.CreatedMost {
		return usage("--jobs: what %d jobs carry would have to be in memory; --shape create and events make at most %d", o.Jobs, bench.CreatedMost)
	}
	return checkBacklog(o)
}

// checkBacklog returns an error for backlog options that can't be measured.
func checkBacklog(o bench.Options) error {
	switch {
	case o.Pending < 0 || o.Pending > benchMost:
		return usage("--pending: %d is not from 0 to %d", o.Pending, benchMost)
	case slices.Contains(o.Shapes, bench.Due) && o.Pending <= bench.FewPending:
		return usage("--shape due compares with %s pending jobs; give more than those with --pending", thousands(bench.FewPending))
	case o.Scattered && o.DatabaseURL == "":
		return usage("--scattered: in SQLite jobs lie where they lie; give a Postgres with --database-url")
	case o.Scattered && o.Pending < bench.ScatteredAt*o.Jobs:
		return usage("--scattered: for %s due jobs, each on a page of its own, %s have to be pending; give that with --pending, or fewer --jobs",
			thousands(int64(o.Jobs)), thousands(int64(bench.ScatteredAt*o.Jobs)))
	case o.OldSnapshot && o.DatabaseURL == "":
		return usage("--old-snapshot: SQLite keeps nothing for old transactions; give a Postgres with --database-url")
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
	return "it is for the shapes " + strings.Join(names, ", ") + "; name one of them with --shape"
}

func (p *cli) bench(ctx context.Context, o bench.Options) (err error) {
	if o.Dir, err = os.MkdirTemp("", "deadman-bench"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(o.Dir) }() // it is in the system's temporary folder
	where := "SQLite, in a folder of " + os.TempDir()
	if o.DatabaseURL != "" {
		server, err := bench.Look(ctx, o.DatabaseURL)
		if err != nil {
			return err
		}
		where = fmt.Sprintf("Postgres %s at %s, database %s", server.Version, server.Address, server.Database)
		p.showLeft(server.Left)
	}
	bar := progressBar{out: p.err, on: isTerminal(p.err)}
	for _, s := range o.Shapes {
		bar.all += o.WaysOf(s) * o.Rounds
	}
	if o.Pending > 0 {
		bar.all++
	}
	bar.show(0, "")
	o.Progress = func(what string, done, all int) {
		bar := progressBar{out: p.err, on: bar.on, all: all}
		bar.clear()
		bar.show(done, what)
	}
	rounds := 0
	o.Measured = func(r bench.Result) {
		rounds++
		bar.clear()
		if p.output == asText {
			fmt.Fprintln(p.out, r)
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
	if p.output == asJSON {
		return writeValue(p.out, map[string]any{"summary": all, "rounds": results, "advice": advice})
	}
	fmt.Fprintf(p.out, "\nMeasured on %s:\n", sanitize(where))
	if err := p.showBench(all); err != nil {
		return err
	}
	for i, line := range advice {
		if i == 0 {
			fmt.Fprintln(p.out, "\nThe settings of this server:")
		}
		fmt.Fprintln(p.out, "*", line)
	}
	return nil
}

// showLeft lists schemas left by earlier runs. It drops none, because another run may be using it.
func (p *cli) showLeft(all []bench.Left) {
	for _, l := range all {
		fmt.Fprintf(p.err, "%s (%s MB) is of a run that could not drop it, or of one that goes on elsewhere; if none does, remove it: DROP SCHEMA %[1]s CASCADE\n",
			l.Schema, thousands(max(l.Bytes>>20, 1)))
	}
}

// thousands formats an integer with separators, such as "100,000".
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
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
