package web_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/web"
)

// shop is the client of a source that answers while it is open.
type shop struct{ shut atomic.Bool }

var errShut = errors.New("connection <refused>")

func (s *shop) Reach(context.Context) error {
	if s.shut.Load() {
		return errShut
	}
	return nil
}

func (s *shop) Query(ctx context.Context, _ lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	return make([]checks.Finding, len(queries)), s.Reach(ctx)
}

func (s *shop) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, nil
}
func (s *shop) Close() {}

// withSources makes a stand with two sources; one can be shut.
func withSources(t *testing.T, changes ...func(*web.Options, *stand)) (*stand, *lookup.Set, *shop) {
	var set *lookup.Set
	client := &shop{}
	s := newStand(t, append(changes, func(o *web.Options, _ *stand) {
		m := web.NewMetrics("v", func(context.Context) (web.Gauges, error) { return web.Gauges{Sources: set.States()}, nil })
		source := func(name string) *lookup.Source {
			return lookup.NewSource(lookup.Options{
				Name: name, Kind: "postgres", Client: client, Limits: lookup.Limits{OpenAfter: 2}, Now: time.Now, Observer: m, Log: quiet,
			})
		}
		set = lookup.NewSet(source("shop"), source("archive"))
		o.Metrics, o.Sources = m, set
	})...)
	return s, set, client
}

func askShop(t *testing.T, set *lookup.Set, keys int) {
	t.Helper()
	source, ok := set.Get("shop")
	if !ok || !source.Enter() {
		t.Fatal("there is no way in")
	}
	source.Query(t.Context(), time.Minute, lookup.Question{KV: "orders"}, make([]lookup.KeyQuery, keys))
}

func TestSources(t *testing.T) {
	s, set, client := withSources(t)
	if got := get[web.Page[web.Source]](t, s.Server, "/api/v1/sources?limit=1"); len(got.Items) != 1 || got.Items[0].Name != "archive" ||
		got.Items[0].State != "new" || got.Next != "archive" {
		t.Errorf("%+v", got)
	}
	if got := get[web.Page[web.Source]](t, s.Server, "/api/v1/sources?cursor=archive"); len(got.Items) != 1 || got.Items[0].Name != "shop" || got.Next != "" {
		t.Errorf("%+v", got)
	}
	askShop(t, set, 3)
	if got := get[web.Source](t, s.Server, "/api/v1/sources/shop"); got.State != "up" || got.Kind != "postgres" || got.Keys != 3 || got.Queries != 1 || got.Error != "" {
		t.Errorf("%+v", got)
	}
	if a := do(t, s.Server, "POST", "/api/v1/sources/shop/test", ""); a.StatusCode != 200 || !strings.Contains(a.body, `"reachable":true`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}

	client.shut.Store(true)
	askShop(t, set, 1)
	if got := get[web.Source](t, s.Server, "/api/v1/sources/shop"); got.State != "failing" {
		t.Errorf("%+v", got)
	}
	askShop(t, set, 1)
	got := get[web.Source](t, s.Server, "/api/v1/sources/shop")
	if got.State != "down" || got.Failures != 2 || got.FailingSince.IsZero() || got.Error != errShut.Error() {
		t.Errorf("%+v", got)
	}
	if a := do(t, s.Server, "POST", "/api/v1/sources/shop/test", ""); a.StatusCode != 200 ||
		!strings.Contains(a.body, `"reachable":false`) || !strings.Contains(a.body, "shop is unavailable") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := do(t, s.Server, "GET", "/health", ""); !strings.Contains(a.body, ">down</span>") || !strings.Contains(a.body, ">connection &lt;refused&gt;<") ||
		!strings.Contains(a.body, ">new</span>") {
		t.Error(a.body)
	}
	has(t, do(t, s.Server, "GET", "/metrics", "").body,
		`deadman_source_up{source="shop"} 0`, `deadman_source_up{source="archive"} 1`, `deadman_source_queries_abandoned{source="shop"} 0`,
		`deadman_source_lookups_total{outcome="absent",source="shop"} 3`, `deadman_source_lookups_total{outcome="outage",source="shop"} 2`,
		`deadman_source_queries_total{source="shop"} 3`, `deadman_source_query_duration_seconds_count{source="shop"} 3`)
	isProblem(t, do(t, s.Server, "GET", "/api/v1/sources/shops", ""), 404, web.NotFound, "source list")
	isProblem(t, do(t, s.Server, "POST", "/api/v1/sources/shops/test", ""), 404, web.NotFound, "source list")
}

func TestWithoutSources(t *testing.T) {
	s := newStand(t)
	if got := get[web.Page[web.Source]](t, s.Server, "/api/v1/sources"); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	isProblem(t, do(t, s.Server, "GET", "/api/v1/sources/shop", ""), 404, web.NotFound, "--sources")
	if a := do(t, s.Server, "GET", "/", ""); strings.Contains(a.body, "Sources") {
		t.Error("the page has sources that are not there")
	}
}
