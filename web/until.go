package web

import (
	"time"

	"deadman/rules"
)

// untilOf is when that ends which is asked for until an instant or for a span from now; zero where
// neither is said. The error is for whoever asked.
func untilOf(until time.Time, span string, now time.Time) (time.Time, error) {
	if span == "" {
		return until, nil
	}
	if !until.IsZero() {
		return until, refused("body.for", "it comes with until, and one of them is enough")
	}
	d, err := rules.ParseDuration(span)
	if err != nil {
		return until, refused("body.for", "%v", err)
	}
	return now.Add(time.Duration(d)), nil
}

// noEnd refuses what has to end and does not say when.
func noEnd() error {
	return refused("body", `it says not how long; send {"for": "2h"} or {"until": "2026-01-31T15:04:05Z"}`)
}
