package rules_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/rules"
)

// shop is a source over a real SQLite database with orders. It answers a question that is not SQL with the question
// itself.
type shop struct {
	db       *sql.DB
	verified atomic.Int32 // how many questions it verified
	line     atomic.Int32 // how many places in the queue are taken
	full     bool         // no caller gets a place
}

var _ rules.Source = (*shop)(nil)

// sources contains a shop, by its name.
type sources struct{ *shop }

func (s sources) Names() []string { return []string{"catalogue", "shop"} }

func (s sources) Source(name string) (rules.Source, bool) {
	return s.shop, name != "" && name == "shop"
}

// newOrderShop opens a shop with an order 1042, complete except for its carrier.
func newOrderShop(t testing.TB) *shop {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, statement := range []string{
		"create table orders (id text primary key, status text, total integer, carrier text)",
		"insert into orders values ('1042', 'UNSHIPPED', 49, null)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return &shop{db: db}
}

func (s *shop) Enter() bool {
	if !s.full {
		s.line.Add(1)
	}
	return !s.full
}

func (s *shop) Query(ctx context.Context, _ time.Duration, q lookup.Question, queries []lookup.KeyQuery) []checks.Finding {
	s.line.Add(-1)
	found := make([]checks.Finding, len(queries))
	for i, query := range queries {
		if q.SQL == "" {
			found[i].Value, found[i].Err = json.Marshal(map[string]string{"query": cmp.Or(query.Path, query.Subject, query.Key)})
			continue
		}
		found[i] = s.row(ctx, q.SQL, query.Params)
	}
	return found
}

// row returns the first row as JSON.
func (s *shop) row(ctx context.Context, query string, params []any) (f checks.Finding) {
	rows, err := s.db.QueryContext(ctx, query, params...)
	if err != nil {
		return checks.Finding{Err: err}
	}
	defer func() { f.Err = errors.Join(f.Err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		return checks.Finding{Err: errors.Join(err, rows.Err())}
	}
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(any)
	}
	if err := rows.Scan(values...); err != nil {
		return checks.Finding{Err: err}
	}
	object := make(map[string]any)
	for i, name := range columns {
		object[name] = *values[i].(*any)
	}
	f.Value, f.Err = json.Marshal(object)
	return f
}

func (s *shop) Verify(ctx context.Context, q lookup.Question, params int) ([]lookup.Column, error) {
	s.verified.Add(1)
	if err := s.Reach(ctx); err != nil || q.SQL == "" {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, q.SQL, make([]any, params)...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", lookup.ErrQuestion, err)
	}
	types, err := rows.ColumnTypes()
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	var columns []lookup.Column
	for _, column := range types {
		kinds := map[string]lookup.Type{"TEXT": lookup.Text, "INTEGER": lookup.Number}
		columns = append(columns, lookup.Column{Name: column.Name(), Type: cmp.Or(kinds[column.DatabaseTypeName()], lookup.Any)})
	}
	return columns, nil
}

func (s *shop) Reach(ctx context.Context) error { return s.db.PingContext(ctx) }
