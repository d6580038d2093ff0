package main

import (
	"fmt"
	"math"
	"time"

	"deadman/internal/bench"
)

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
	column("way", func(s bench.Summary) cell { return cellOf(s.Way) }),
	column("jobs/s", func(s bench.Summary) cell { return cellOf(benchRate(s.Rate)) }),
	column("from", func(s bench.Summary) cell { return dimCell("%s", benchRate(s.Least)) }),
	column("to", func(s bench.Summary) cell { return dimCell("%s", benchRate(s.Most)) }),
	{"of the first", func(s bench.Summary) cell { return colouredCell(bold, known(!s.First, "%.2f", s.OfFloor)) }, "1"},
	column("WAL/job", func(s bench.Summary) cell { return cellOf(known(s.WAL > 0, "%s B", thousands(s.WAL))) }),
	column("CPU/job", func(s bench.Summary) cell {
		return cellOf(known(s.CPU > 0, "%.1f µs", float64(s.CPU.Nanoseconds())/1e3))
	}),
	column("memory", func(s bench.Summary) cell { return cellOf(known(s.Memory > 0, "%s MB", thousands(s.Memory>>20))) }),
	column("p50", func(s bench.Summary) cell { return cellOf(milliseconds(s.P50)) }),
	column("p99", func(s bench.Summary) cell { return cellOf(milliseconds(s.P99)) }),
	column("max", func(s bench.Summary) cell { return cellOf(milliseconds(s.Longest)) }),
	column("pages/read", func(s bench.Summary) cell { return cellOf(known(s.Buffers > 0, "%s", thousands(s.Buffers))) }),
	column("idle pages/shard", func(s bench.Summary) cell { return cellOf(known(s.Idle > 0, "%.1f", s.Idle)) }),
}

// showBench prints the medians as a table.
func (p *cli) showBench(all []bench.Summary) error {
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
	t := newTable(p.out, p.palette, header...)
	for _, row := range rows {
		t.row(row...)
	}
	return t.fit(terminalWidth(p.out)).end()
}

// known formats a text, or returns an empty one if the value is unknown.
func known(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// benchRate formats a rate, rounded as in the RESULT lines.
func benchRate(rate float64) string { return thousands(int64(math.RoundToEven(rate))) }

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
		return thousands(int64(math.Round(ms))) + " ms"
	}
}
