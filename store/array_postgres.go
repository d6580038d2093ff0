package store

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// cells is an array whose items pgx reads in place. Of a slice it would put each item into a box of its
// own, and of one of pointers look at each by reflection.
type cells[T pgtype.Text | pgtype.Timestamptz] []T

var _ pgtype.ArrayGetter = cells[pgtype.Text](nil)

// Dimensions is of pgtype.ArrayGetter, as the two that follow.
func (c cells[T]) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(c)), LowerBound: 1}} //nolint:gosec // a statement's rows
}

// Index returns a pointer to an item.
func (c cells[T]) Index(i int) any { return &c[i] }

// IndexType returns a pointer to an item that says what all are.
func (c cells[T]) IndexType() any { return new(T) }

// text writes text into an array.
func text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: true} }

// words writes JSON into an array: NULL for none.
func words(b []byte) pgtype.Text {
	if b == nil {
		return pgtype.Text{}
	}
	return text(document(b))
}

// moment writes a time into an array, also the zero one.
func moment(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: true} }
