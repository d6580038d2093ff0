package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// cell is one cell of a table: text from anywhere, and its colour.
type cell struct {
	text   string
	colour colour
}

func say(text string) cell                  { return cell{text, normal} }
func sayIn(c colour, text string) cell      { return cell{text, c} }
func sayNumber[N int | uint64](n N) cell    { return cell{fmt.Sprint(n), normal} }
func faint(format string, args ...any) cell { return cell{fmt.Sprintf(format, args...), dim} }

// widest is how much of one cell is shown; -o json shows all of it.
const widest = 100

// table lines rows up for people.
type table struct {
	w       *tabwriter.Writer
	palette palette
}

// newTable begins a table with a header.
func newTable(out io.Writer, p palette, header ...string) *table {
	t := &table{w: tabwriter.NewWriter(out, 0, 4, 2, ' ', 0), palette: p}
	cells := make([]cell, len(header))
	for i, h := range header {
		cells[i] = faint("%s", strings.ToUpper(h))
	}
	t.row(cells...)
	return t
}

func (t *table) row(cells ...cell) {
	painted := make([]string, len(cells))
	for i, c := range cells {
		painted[i] = t.palette.paint(c.colour, clip(plain(c.text), widest))
	}
	fmt.Fprintln(t.w, strings.Join(painted, "\t"))
}

// end writes the table out.
func (t *table) end() error { return t.w.Flush() }
