package ruletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"deadman/internal/configfile"
)

// row is an alert, an outcome or a dead letter of a test, by column.
type row map[string]string

// Diff is the difference between the expected and the actual entries of a list, in order.
type Diff struct {
	Columns []string   `json:"columns"`
	Lines   []DiffLine `json:"lines"`
}

// DiffLine is an entry that is expected, or actual, or both.
type DiffLine struct {
	Sign  string            `json:"sign"` // "-": expected and missing, "+": actual and not expected, " ": as expected
	Cells map[string]string `json:"cells"`
	Line  int               `json:"line,omitempty"`  // of the expectation
	Wrong []string          `json:"wrong,omitempty"` // columns that differ from the entry beside it
}

// wrong returns the columns in which an entry is not as expected.
func (x Expectation) wrong(got row) (columns []string) {
	for _, column := range slices.Sorted(maps.Keys(x.Columns)) {
		want := x.Columns[column]
		var ok bool
		switch column {
		case "contains":
			ok = strings.Contains(got["text"], want)
		case "reason":
			ok = strings.Contains(got["reason"], want)
		default:
			ok = got[column] == want
		}
		if !ok {
			columns = append(columns, column)
		}
	}
	return columns
}

// cells returns the columns as a line of a difference shows them.
func (x Expectation) cells() map[string]string {
	cells := maps.Clone(x.Columns)
	if part, ok := cells["contains"]; ok {
		delete(cells, "contains")
		cells["text"] = "…" + part + "…"
	}
	return cells
}

// inOrderOf returns the expectations with those of the same time in the order of the entries that match them: such entries
// may be expected in any order.
func inOrderOf(got []row, expected []Expectation) []Expectation {
	expected = slices.Clone(expected)
	for i := range min(len(got), len(expected)) {
		for j := i; j < len(expected) && expected[j].Columns["at"] == expected[i].Columns["at"]; j++ {
			if len(expected[j].wrong(got[i])) == 0 {
				x := expected[j]
				expected = slices.Insert(slices.Delete(expected, j, j+1), i, x)
				break
			}
		}
	}
	return expected
}

// pair is an expected entry and the actual one beside it; -1: there is none.
type pair struct{ expected, got int }

// align pairs expected and actual entries in their order, with the least difference. The cost of an entry without another
// is 1, and that of two that differ is less than 2.
func align(expected []Expectation, got []row) []pair {
	cost := make([][]float64, len(expected)+1)
	for i := len(expected); i >= 0; i-- {
		cost[i] = make([]float64, len(got)+1)
		for j := len(got); j >= 0; j-- {
			switch {
			case i == len(expected) && j == len(got):
			case i == len(expected):
				cost[i][j] = cost[i][j+1] + 1
			case j == len(got):
				cost[i][j] = cost[i+1][j] + 1
			default:
				cost[i][j] = min(cost[i+1][j+1]+pairCost(expected[i], got[j]), cost[i+1][j]+1, cost[i][j+1]+1)
			}
		}
	}
	var pairs []pair
	for i, j := 0, 0; i < len(expected) || j < len(got); {
		switch {
		case i < len(expected) && j < len(got) && cost[i][j] == cost[i+1][j+1]+pairCost(expected[i], got[j]):
			pairs = append(pairs, pair{i, j})
			i, j = i+1, j+1
		case i < len(expected) && cost[i][j] == cost[i+1][j]+1:
			pairs = append(pairs, pair{i, -1})
			i++
		default:
			pairs = append(pairs, pair{-1, j})
			j++
		}
	}
	return pairs
}

// pairCost returns the cost of an expected entry beside an actual one: nothing if they match, and more than that of both
// apart if they are of different jobs.
func pairCost(x Expectation, got row) float64 {
	wrong := x.wrong(got)
	switch {
	case len(wrong) == 0:
		return 0
	case slices.Contains(wrong, "rule") || slices.Contains(wrong, "key"):
		return 3
	}
	return 1 + float64(len(wrong))/float64(len(x.Columns)+1)
}

// newDiff returns the difference of a list, and the pairs of its lines that differ; nil: there is no difference.
func newDiff(columns []string, expected []Expectation, got []row, partial bool) (*Diff, []pair) {
	d := &Diff{Columns: columns}
	var differing []pair
	for _, p := range align(expected, got) {
		var wrong []string
		if p.expected >= 0 && p.got >= 0 {
			if wrong = expected[p.expected].wrong(got[p.got]); len(wrong) == 0 {
				d.Lines = append(d.Lines, DiffLine{Sign: " ", Cells: got[p.got]})
				continue
			}
		}
		if p.expected >= 0 {
			x := expected[p.expected]
			d.Lines = append(d.Lines, DiffLine{Sign: "-", Cells: x.cells(), Line: x.Line, Wrong: shown(wrong)})
		}
		sign := "+"
		if partial && p.expected < 0 {
			sign = " "
		}
		if p.got >= 0 {
			d.Lines = append(d.Lines, DiffLine{Sign: sign, Cells: got[p.got], Wrong: shown(wrong)})
		}
		if p.expected >= 0 || !partial {
			differing = append(differing, p)
		}
	}
	if len(differing) == 0 {
		return nil, nil
	}
	return d, differing
}

// shown returns columns as a line of a difference names them.
func shown(columns []string) []string {
	columns = slices.Clone(columns)
	for i, c := range columns {
		if c == "contains" {
			columns[i] = "text"
		}
	}
	return columns
}

// columnsOf returns the columns that a difference shows: those that are always useful, and those that are expected. several
// is whether the test has several rules.
func columnsOf(table configfile.Table, expected []Expectation, several bool) []string {
	used := map[string]bool{"at": true, "rule": several, "key": true, "step": true, "status": true, "outcome": true, "subject": true}
	var labels []string
	for _, x := range expected {
		for column := range x.Columns {
			used[column] = true
			if strings.HasPrefix(column, "label ") && !slices.Contains(labels, column) {
				labels = append(labels, column)
			}
		}
	}
	used["text"] = used["text"] || used["contains"] || len(expected) == 0
	used["reason"] = used["reason"] || len(expected) == 0
	var columns []string
	for _, name := range table.Names() {
		switch {
		case name == "contains":
		case name == "labels":
			slices.Sort(labels)
			columns = append(columns, labels...)
		case used[name]:
			columns = append(columns, name)
		}
	}
	return columns
}

// summary counts the differences of a list.
func (d *Diff) summary(noun string) string {
	missing, surplus, wrong := 0, 0, 0
	for _, l := range d.Lines {
		switch {
		case l.Sign == "-" && len(l.Wrong) > 0:
			wrong++
		case l.Sign == "-":
			missing++
		case l.Sign == "+" && len(l.Wrong) == 0:
			surplus++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{{wrong, "not as expected"}, {missing, "missing"}, {surplus, "not expected"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", counted(part.n, noun), part.text))
		}
	}
	return strings.Join(parts, ", ")
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
