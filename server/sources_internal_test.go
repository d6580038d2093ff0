package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/sources"
)

// TestSourceWithOpenOutageFails checks that a source that was not queried since the start is no working source while an outage of it
// is open, and that an unread list of outages is no good sign.
func TestSourceWithOpenOutageFails(t *testing.T) {
	spec := sources.Spec{Name: "shop"}
	set := sourceSet{lookup.NewSet(lookup.NewSource(lookup.Options{Name: spec.Name, Now: time.Now, Log: slog.New(slog.DiscardHandler)}))}
	silent := errors.New("no answer")
	for _, c := range []struct {
		open   []futurejobs.Outage
		err    error
		ok     bool
		detail string
	}{
		{nil, nil, true, "no source is failing"},
		{[]futurejobs.Outage{{Source: "other"}}, nil, true, "no source is failing"},
		{[]futurejobs.Outage{{Source: "shop"}}, nil, false, "failing: shop; checks that query them are retried"},
		{nil, silent, false, "the outages of the sources cannot be read"},
	} {
		all := set.condition(t.Context(), func(context.Context) ([]futurejobs.Outage, error) { return c.open, c.err })
		if len(all) != 1 || all[0].OK != c.ok || all[0].Detail != c.detail || !errors.Is(all[0].Err, c.err) {
			t.Errorf("%+v: %+v", c, all)
		}
	}
}
