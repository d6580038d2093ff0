package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
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
