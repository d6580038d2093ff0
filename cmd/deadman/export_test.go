package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestExport checks that all formats have every ended job and every alert, over several pages, with large bodies.
func TestExport(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rule.yaml", `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
escalate: [{after: 1s, step: primary, text: 'order "{{event.id}}", unshipped'}]
slot: 1s
`))
	const jobs = 620 // more than a page
	var lines strings.Builder
	for i := range jobs {
		note := ""
		if i == 7 {
			note = strings.Repeat("x", 20_000) // more than a list has
		}
		fmt.Fprintf(&lines, `{"rule":"order-unshipped","key":"o-%d","event":{"id":"o-%d","note":%q}}`+"\n", i, i, note)
	}
	n.mustRun("job", "create", "-f", writeFile(t, t.TempDir(), "jobs.jsonl", lines.String()))
	testwait.Until(t, "all jobs end", func() bool {
		return strings.Count(n.mustRun("history", "export", "-", "--format", "jsonl"), "\n") == jobs
	})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, list := range []string{"history", "alert"} {
		for _, format := range []string{"jsonl", "csv", "parquet"} {
			n.mustRun(list, "export", at(list+"."+format))
		}
	}

	ended := make(map[string]endedRow)
	rows, err := parquet.ReadFile[endedRow](at("history.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		ended[r.Key] = r
	}
	documents := readLines[web.EndedJob](t, at("history.jsonl"))
	table := readTable(t, at("history.csv"))
	if len(ended) != jobs || len(documents) != jobs || len(table) != jobs {
		t.Fatalf("%d, %d and %d ended jobs, want %d", len(ended), len(documents), len(table), jobs)
	}
	for i, d := range documents {
		r := ended[d.Key]
		if !r.EndedAt.Equal(d.EndedAt) || r.Outcome != string(d.Outcome) || r.Alerts != d.Alerts[0].String() {
			t.Fatalf("row %+v of %+v", r, d)
		}
		if c := table[i]; c["key"] != d.Key || c["ended_at"] != d.EndedAt.Format(time.RFC3339Nano) || c["outcome"] != r.Outcome || c["check_count"] != "1" {
			t.Fatalf("line %v of %+v", c, d)
		}
	}
	raised, err := parquet.ReadFile[alertRow](at("alert.parquet"))
	if err != nil || len(raised) != jobs {
		t.Fatalf("%d alerts, %v", len(raised), err)
	}
	for i, c := range readTable(t, at("alert.csv")) {
		a := raised[i]
		if c["id"] != a.ID || c["text"] != fmt.Sprintf("order %q, unshipped", a.Key) || c["event"] != a.Event {
			t.Fatalf("line %v of %+v", c, a)
		}
		if a.Key == "o-7" && len(a.Event) < 20_000 {
			t.Errorf("the event of %s has %d bytes", a.Key, len(a.Event))
		}
	}
	n.expect(0, []string{"history", "export", "-", "--format", "csv", "--outcome", "resolved"}, "ended_at,rule,")
	for _, bad := range [][]string{{at("history.csv")}, {at("history.txt")}, {at("no/folder.csv")}, {at("new.csv"), "--format", "xls"}} {
		n.expect(2, append([]string{"history", "export"}, bad...))
	}
	if names, err := filepath.Glob(at("*")); err != nil || len(names) != 6 {
		t.Errorf("files %q, %v", names, err)
	}
}

// readLines decodes the lines of a file.
func readLines[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// readTable returns the lines of a CSV file, by the names of the columns.
func readTable(t *testing.T, path string) (all []map[string]string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records[1:] {
		line := make(map[string]string)
		for i, name := range records[0] {
			line[name] = r[i]
		}
		all = append(all, line)
	}
	return all
}
