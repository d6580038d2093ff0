package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	futurejobs "deadman/future_jobs"
)

// asJSON reads stored JSON; NULL is the zero value.
type asJSON[T any] struct{ into *T }

// Scan implements sql.Scanner.
func (j asJSON[T]) Scan(src any) error {
	var zero T
	*j.into = zero
	return fromText(src, j.into)
}

// fromText reads a JSON text into v; NULL leaves v unchanged.
func fromText(src, v any) error {
	switch text := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(text), v)
	case []byte:
		return json.Unmarshal(text, v)
	}
	return fmt.Errorf("%T is no JSON text", src)
}

// orderingOf returns the stored form of a job's event order; nil: none.
func orderingOf(o *futurejobs.Order) (*string, error) {
	if o == nil {
		return nil, nil
	}
	return toText(o)
}

// endsOf returns the stored form of a key's early ends; nil: the columns of the last end have all of it.
func endsOf(e futurejobs.EarlyEvent) (*string, error) {
	if len(e.Ends) == 0 || len(e.Ends) == 1 && e.Ends[0].From.IsZero() && e.Ends[0].At.Equal(e.At) {
		return nil, nil
	}
	return toText(e.Ends)
}

// changesOf returns the stored form of a key's early changes; nil: none.
func changesOf(e futurejobs.EarlyEvent) (*string, error) {
	if len(e.Changes) == 0 {
		return nil, nil
	}
	return toText(e.Changes)
}

// toText returns v as JSON and leaves the bodies of events as they are.
func toText(v any) (*string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text := document(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return &text, nil
}

// TraceStore reads the traces of jobs.
type TraceStore struct{ *database }

// TracesOf returns the traces of jobs by id. Jobs without a trace, and jobs that have ended, are left out.
func (s *TraceStore) TracesOf(ctx context.Context, jobs []futurejobs.Ref, ids []int64) (map[int64]string, error) {
	shards := make([]int16, len(jobs))
	for i, j := range jobs {
		shards[i] = j.Shard
	}
	slices.Sort(shards)
	type traced struct {
		id    int64
		order futurejobs.Order
	}
	found, err := query(ctx, s.read, func(row scanner, t *traced) error { return row.Scan(&t.id, asJSON[futurejobs.Order]{&t.order}) },
		`SELECT f.id, f.ordering FROM future_job f WHERE f.shard IN `+inList(slices.Compact(shards))+` AND f.id IN `+inList(ids)+` AND f.ordering IS NOT NULL`)
	if err != nil {
		return nil, wrapErr("traces", err)
	}
	traces := make(map[int64]string, len(found))
	for _, t := range found {
		if t.order.Trace != "" {
			traces[t.id] = t.order.Trace
		}
	}
	return traces, nil
}
