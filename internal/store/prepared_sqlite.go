package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// mostPrepared is the largest number of cached statements; later ones are prepared each time.
const mostPrepared = 100

// prepared is a pool with a cache of statements. In SQLite, parsing a text costs more than running most statements. A
// LIMIT must be in the text: as a parameter it makes SQLite prepare the text again each time.
type prepared struct {
	*sql.DB
	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

func newPrepared(db *sql.DB) *prepared { return &prepared{DB: db, stmts: make(map[string]*sql.Stmt)} }

// QueryContext is that of sql.DB, with a cached statement.
func (p *prepared) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := p.stmt(ctx, text)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return p.DB.QueryContext(ctx, text, args...)
	}
	return s.QueryContext(ctx, args...)
}

// stmt returns the statement of a text, or nil if the cache is full.
func (p *prepared) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.stmts[text]; ok || len(p.stmts) >= mostPrepared {
		return s, nil
	}
	s, err := p.DB.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	p.stmts[text] = s
	return s, nil
}

// all returns the statements of texts.
func (p *prepared) all(ctx context.Context, texts []string) (map[string]*sql.Stmt, error) {
	stmts := make(map[string]*sql.Stmt, len(texts))
	for _, text := range texts {
		s, err := p.stmt(ctx, text)
		if err != nil {
			return nil, err
		}
		stmts[text] = s
	}
	return stmts, nil
}

// Close closes the statements and the pool.
func (p *prepared) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.stmts {
		errs = append(errs, s.Close())
	}
	clear(p.stmts)
	return errors.Join(append(errs, p.DB.Close())...)
}

// jsonTable is rowTable for SQLite: one parameter has all rows, and an instant is a number of microseconds.
func jsonTable(fields []rowField, rows [][]any) (text string, args []any, err error) {
	encoded := make([][]any, len(rows))
	for i, row := range rows {
		encoded[i] = make([]any, len(row))
		for k, v := range row {
			if t, ok := v.(time.Time); ok {
				if v = nil; !t.IsZero() {
					v = t.UnixMicro()
				}
			}
			encoded[i][k] = v
		}
	}
	all, err := json.Marshal(encoded)
	if err != nil {
		return "", nil, err
	}
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = fmt.Sprintf(`json_extract(value, '$[%d]') AS %s`, i, f.name)
	}
	return `(SELECT ` + strings.Join(values, `, `) + ` FROM json_each(?)) AS d`, []any{string(all)}, nil
}
