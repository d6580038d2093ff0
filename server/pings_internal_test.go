package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"deadman/internal/pings"
	"deadman/rules"
)

// Senders of pings can't suspend the checks of others: only an unreachable database can.
func TestMissedPings(t *testing.T) {
	s := emptyStore(t)
	missed := 0
	p := &pingHandler{
		Resolver: &pings.Resolver{Store: s, Catalog: rules.NewCatalog(s, 4), Now: time.Now},
		missed:   func() { missed++ },
	}
	path := pings.Path{ID: "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"}
	find := func(ctx context.Context, is error, want int) {
		t.Helper()
		if _, _, _, err := p.Resolve(ctx, path, true); err == nil || (is != nil && !errors.Is(err, is)) || missed != want {
			t.Errorf("%v: %d are missed, want %d", err, missed, want)
		}
	}
	find(t.Context(), pings.ErrUnknown, 0)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	find(gone, context.Canceled, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	find(t.Context(), nil, 1)
}
