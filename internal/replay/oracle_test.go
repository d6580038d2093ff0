package replay_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/rules"
)

// realOrders is a file with orders of a marketplace, outside the repository.
const realOrders = "../../../shared/data/orders-2016-2017.csv"

// orders are the rows of a table of orders. A cancelled order has an additional time an hour after its last one: the table
// does not know when it was cancelled.
type orders struct {
	header []string
	rows   [][]string
}

// subjects are the subjects of the events by column.
var subjects = map[string]string{
	"purchased_at": "orders.created", "approved_at": "orders.approved", "handed_to_carrier_at": "orders.shipped",
	"delivered_at": "orders.delivered", "cancelled_at": "orders.cancelled",
}

// readOrders reads the real orders, or without them a table of made-up ones.
func readOrders(t *testing.T) orders {
	t.Helper()
	at := os.Getenv("DEADMAN_ORDERS")
	if at == "" {
		at = filepath.FromSlash(realOrders)
	}
	file, err := os.Open(at)
	if errors.Is(err, os.ErrNotExist) {
		t.Logf("%s does not exist: the orders are made-up ones, of testdata/orders.csv; name the real ones with DEADMAN_ORDERS", at)
		at = "testdata/orders.csv"
		file, err = os.Open(at)
	}
	t.Logf("orders of %s", at)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	o := orders{header: append(all[0], "cancelled_at")}
	for _, row := range all[1:] {
		row = append(row, "")
		if row[o.column("status")] == "canceled" {
			last := time.Time{}
			for _, name := range []string{"purchased_at", "approved_at", "handed_to_carrier_at", "delivered_at"} {
				if at := parse(t, row[o.column(name)]); at.After(last) {
					last = at
				}
			}
			row[len(row)-1] = last.Add(time.Hour).Format(time.RFC3339)
		}
		o.rows = append(o.rows, row)
	}
	return o
}

func (o orders) column(name string) int { return slices.Index(o.header, name) }

func parse(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// csv returns the table as the CSV reader takes it.
func (o orders) csv(t *testing.T) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(append([][]string{o.header}, o.rows...)); err != nil {
		t.Fatal(err)
	}
	return &b
}

// columns are the mapped columns, in the order in which events of the same row and time happen.
func columns() (all []replay.TimeColumn) {
	for _, name := range []string{"purchased_at", "approved_at", "handed_to_carrier_at", "delivered_at", "cancelled_at"} {
		all = append(all, replay.TimeColumn{Subject: subjects[name], Column: name})
	}
	return all
}

// expected returns the alerts of the oracle.
func (o orders) expected(t *testing.T) []string {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	do := func(text string, args ...any) {
		if _, err := db.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE TABLE orders (order_id TEXT, status TEXT, purchased_at INT, approved_at INT, handed_to_carrier_at INT, delivered_at INT, estimated_delivery_at INT, cancelled_at INT)`)
	do(`CREATE TABLE event (at INT)`)
	for _, row := range o.rows {
		args := []any{row[0], row[1]}
		for i := 2; i < len(row); i++ {
			var at any
			if moment := parse(t, row[i]); !moment.IsZero() {
				at = moment.Unix()
				if subjects[o.header[i]] != "" {
					do(`INSERT INTO event VALUES (?)`, at)
				}
			}
			args = append(args, at)
		}
		do(`INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, args...)
	}
	text, err := os.ReadFile("testdata/oracle.sql")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(string(text))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var rule, key, step, status string
		var at int64
		if err := rows.Scan(&rule, &key, &step, &status, &at); err != nil {
			t.Fatal(err)
		}
		all = append(all, line(rule, key, step, status, time.Unix(at, 0)))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func line(rule, key, step, status string, at time.Time) string {
	return fmt.Sprintf("%s %s %s %s %s", at.UTC().Format(time.RFC3339), rule, key, step, status)
}

// The alerts of real orders agree one by one with those that SQL computes from the table.
func TestAlertsAgreeWithOracle(t *testing.T) {
	o := readOrders(t)
	want := o.expected(t)
	r := newReplay(t, "testdata/orders.yaml", "testdata/calendars.yaml")
	var got []string
	r.Raise = func(a alerts.Alert) error {
		step := a.Step
		if a.Status == alerts.Resolved {
			step = ""
		}
		got = append(got, line(a.Rule, a.Key, step, string(a.Status), a.Slot))
		return nil
	}
	table, err := replay.NewCSV(o.csv(t), columns(), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	summary := play(t, r, table)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts of %d orders (-oracle +replay):\n%.6000s", len(o.rows), diff)
	}
	if len(want) == 0 {
		t.Error("the oracle expects no alert")
	}
	text, _ := json.Marshal(summary)
	t.Logf("%d alerts of %d orders, %s", len(want), len(o.rows), text)
}

// newReplay returns a replay of the rules of a file, from the first event on.
func newReplay(t testing.TB, file, calendarFile string) *replay.Replay {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(calendarFile)
	if err != nil {
		t.Fatal(err)
	}
	known, err := calendars.Parse(data, calendarFile)
	if err != nil {
		t.Fatal(err)
	}
	return replayOf(t, string(text), known, time.Time{})
}

// replayOf returns a replay of rules that are saved at a time.
func replayOf(t testing.TB, text string, known calendars.Set, from time.Time) *replay.Replay {
	t.Helper()
	documents, err := rules.ParseAgainst([]byte(text), "rules.yaml", known)
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.New(t.Context(), documents, known, nil, from)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// play plays all events of a reader, up to the last.
func play(t testing.TB, r *replay.Replay, from replay.Reader) *replay.Summary {
	t.Helper()
	var last time.Time
	for {
		e, place, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.Event(context.Background(), e)
		}
		if err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		last = e.Time
	}
	summary, err := r.Finish(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	return summary
}
