// Command pictures draws recorded measurements as pictures of the documentation.
//
//	pictures -load bin/load.json    what the dashboards show under load, as TestDashboardsUnderLoad recorded it
//	pictures -soak bin/soak.csv     what TestSoak sampled
//
// It writes docs/pictures/dashboard-NAME.svg and docs/pictures/soak.svg, in the folder of -out.
package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"deadman/internal/tools/chart"
)

func main() {
	load := flag.String("load", "", "JSON `file` of TestDashboardsUnderLoad")
	soak := flag.String("soak", "", "CSV `file` of TestSoak")
	out := flag.String("out", "docs/pictures", "`folder` of the pictures")
	flag.Parse()
	if err := run(*load, *soak, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(load, soak, out string) error {
	sheets := make(map[string]chart.Sheet)
	switch {
	case load == "" && soak == "":
		return errors.New("nothing to draw: give -load or -soak a file")
	case load != "":
		text, err := os.ReadFile(load)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &sheets); err != nil {
			return fmt.Errorf("%s: %w", load, err)
		}
		sheets = named(sheets)
	}
	if soak != "" {
		sheet, err := soakSheet(soak)
		if err != nil {
			return fmt.Errorf("%s: %w", soak, err)
		}
		sheets["soak"] = sheet
	}
	for name, sheet := range sheets {
		svg, err := sheet.Draw()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".svg"), svg, 0o644); err != nil { //nolint:gosec // a picture for all
			return err
		}
	}
	return nil
}

// named returns the sheets of dashboards by the names of their pictures, with a note.
func named(boards map[string]chart.Sheet) map[string]chart.Sheet {
	sheets := make(map[string]chart.Sheet)
	for name, b := range boards {
		b.Note = fmt.Sprintf("%.0f minutes of two nodes on Postgres and NATS under 40 orders a second; grey bands are events", b.Span/60)
		sheets["dashboard-"+name] = b
	}
	return sheets
}

// soakPanels are the panels of a soak, with the columns of its samples.
var soakPanels = []struct {
	title, unit string
	columns     map[string]string // names of lines by column
}{
	{"Memory of the node", "bytes", map[string]string{"resident_bytes": "resident", "heap_bytes": "heap in use"}},
	{"Open files", "", map[string]string{"open_files": "files and connections"}},
	{"Goroutines", "", map[string]string{"goroutines": "goroutines"}},
	{"Pending jobs", "", map[string]string{"pending_jobs": "jobs"}},
	{"Tables of jobs and of unpublished alerts", "bytes", map[string]string{"job_table_bytes": "future_job", "outbox_table_bytes": "alert_outbox"}},
	{"Database", "bytes", map[string]string{"database_bytes": "all tables and indexes"}},
	{"Streams of orders and alerts", "bytes", map[string]string{"streams_bytes": "both, kept for 10 minutes"}},
	{"Orders and alerts so far", "", map[string]string{"orders": "orders", "alerts": "alerts"}},
}

// soakSheet reads the samples of a soak.
func soakSheet(file string) (chart.Sheet, error) {
	f, err := os.Open(file)
	if err != nil {
		return chart.Sheet{}, err
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return chart.Sheet{}, err
	}
	if len(rows) < 3 {
		return chart.Sheet{}, fmt.Errorf("it has %d samples; wait for more", len(rows)-1)
	}
	header, rows := rows[0], rows[1:]
	numbers := make([][]float64, len(rows))
	for i, row := range rows {
		for _, text := range row {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return chart.Sheet{}, fmt.Errorf("line %d: %w", i+2, err)
			}
			numbers[i] = append(numbers[i], n)
		}
	}
	last := numbers[len(numbers)-1]
	sheet := chart.Sheet{Title: "A node under a steady load", Span: last[0]}
	for _, p := range soakPanels {
		panel := chart.Panel{Title: p.title, Unit: p.unit}
		for column, name := range header {
			if legend, ok := p.columns[name]; ok {
				panel.Lines = append(panel.Lines, seriesOf(legend, numbers, column))
			}
		}
		sheet.Panels = append(sheet.Panels, panel)
	}
	orders := last[slices.Index(header, "orders")]
	sheet.Note = fmt.Sprintf("%.0f minutes at %.0f orders a second, one node beside Postgres and NATS on two cores that others use, too", last[0]/60, orders/last[0])
	return sheet, nil
}

// seriesOf returns a column over the seconds of the first column.
func seriesOf(name string, rows [][]float64, column int) chart.Series {
	s := chart.Series{Name: name}
	for _, row := range rows {
		s.Points = append(s.Points, chart.At{row[0], row[column]})
	}
	return s
}
