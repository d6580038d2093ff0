package rules

import (
	"context"
	"sync"
)

// parsingAtOnce is how many texts and documents of rules a registry compiles at a time. One may take tens of megabytes
// and seconds.
const parsingAtOnce = 2

// parsing lets few texts be parsed at a time. Its zero value is ready to be used.
type parsing struct {
	once  sync.Once
	turns chan struct{}
}

// do does what compiles rules when it is its turn, unless ctx ends before; then what was done is of no use.
func (p *parsing) do(ctx context.Context, compile func()) error {
	p.once.Do(func() { p.turns = make(chan struct{}, parsingAtOnce) })
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turns }()
	compile()
	return ctx.Err()
}

// parse parses a text when it is its turn.
func (r *Registry) parse(ctx context.Context, text []byte, file string) (documents []placed, err error) {
	ended := r.parsing.do(ctx, func() {
		documents, err = parseAmid(text, file, outside{calendars: r.Calendars, ended: ctx.Done()})
	})
	if ended != nil {
		return nil, ended
	}
	return documents, err
}

// compile compiles a document when it is its turn.
func (r *Registry) compile(ctx context.Context, how func(outside) (*Rule, error)) (rule *Rule, err error) {
	world := r.outside()
	world.ended = ctx.Done()
	if ended := r.parsing.do(ctx, func() { rule, err = how(world) }); ended != nil {
		return nil, ended
	}
	return rule, err
}
