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

// shopClient is the client of a source that answers while it is open.
type shopClient struct{ closed atomic.Bool }

var errClosed = errors.New("connection <refused>")

func (s *shopClient) Reach(context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

func (s *shopClient) Query(ctx context.Context, _ lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	return make([]checks.Finding, len(queries)), s.Reach(ctx)
}

func (s *shopClient) Verify(context.Context, lookup.Question, int) ([]lookup.Column, error) {
	return nil, nil
}
func (s *shopClient) Close() {}

// withSources makes a fixture with two sources; one can be shut.
func withSources(t *testing.T, changes ...func(*web.Options, *fixture)) (*fixture, *lookup.Set, *shopClient) {
	var set *lookup.Set
	client := &shopClient{}
	s := newFixture(t, append(changes, func(o *web.Options, _ *fixture) {
		m := web.NewMetrics("v", func(context.Context) (web.ClusterGauges, error) { return web.ClusterGauges{}, nil }, func() web.NodeGauges { return web.NodeGauges{Sources: set.States()} })
		source := func(name string) *lookup.Source {
			return lookup.NewSource(lookup.Options{
				Name: name, Kind: "postgres", Client: client, Limits: lookup.Limits{OpenAfter: 2}, Now: time.Now, Observer: m, Log: discardLog,
			})
		}
		set = lookup.NewSet(source("shop"), source("archive"))
		o.Metrics, o.Sources = m, set
	})...)
	return s, set, client
}

func queryShop(t *testing.T, set *lookup.Set, keys int) {
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
	queryShop(t, set, 3)
	if got := get[web.Source](t, s.Server, "/api/v1/sources/shop"); got.State != "up" || got.Kind != "postgres" || got.Keys != 3 || got.Queries != 1 || got.Error != "" {
		t.Errorf("%+v", got)
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/sources/shop/test", ""); a.StatusCode != 200 || !strings.Contains(a.body, `"reachable":true`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}

	client.closed.Store(true)
	queryShop(t, set, 1)
	if got := get[web.Source](t, s.Server, "/api/v1/sources/shop"); got.State != "failing" {
		t.Errorf("%+v", got)
	}
	queryShop(t, set, 1)
	got := get[web.Source](t, s.Server, "/api/v1/sources/shop")
	if got.State != "down" || got.Failures != 2 || got.FailingSince.IsZero() || got.Error != errClosed.Error() {
		t.Errorf("%+v", got)
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/sources/shop/test", ""); a.StatusCode != 200 ||
		!strings.Contains(a.body, `"reachable":false`) || !strings.Contains(a.body, "shop is unavailable") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/health", ""); !strings.Contains(a.body, ">down</span>") || !strings.Contains(a.body, ">connection &lt;refused&gt;<") ||
		!strings.Contains(a.body, ">new</span>") {
		t.Error(a.body)
	}
	checkMetrics(t, requestPath(t, s.Server, "GET", "/metrics", "").body,
		`deadman_source_up{source="shop"} 0`, `deadman_source_up{source="archive"} 1`, `deadman_source_queries_abandoned{source="shop"} 0`,
		`deadman_source_lookups_total{outcome="absent",source="shop"} 3`, `deadman_source_lookups_total{outcome="error",source="shop"} 0`, `deadman_source_lookups_total{outcome="outage",source="shop"} 2`,
		`deadman_source_queries_total{source="shop"} 3`, `deadman_source_query_duration_seconds_count{source="shop"} 3`)
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/sources/shops", ""), 404, web.NotFound, "source list")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/sources/shops/test", ""), 404, web.NotFound, "source list")
}

func TestWithoutSources(t *testing.T) {
	s := newFixture(t)
	if got := get[web.Page[web.Source]](t, s.Server, "/api/v1/sources"); len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/sources/shop", ""), 404, web.NotFound, "--sources")
	if a := requestPath(t, s.Server, "GET", "/", ""); strings.Contains(a.body, "Sources") {
		t.Error("the page has sources that are not there")
	}
}
