package sources_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/sources"
)

// A proxy leaves goroutines behind, and the Postgres of the tests ends with the process.
func TestMain(m *testing.M) {
	const proxy = "github.com/Shopify/toxiproxy/v2"
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("deadman/internal/store/storetest.(*Cluster).await"),
		goleak.IgnoreAnyFunction(proxy+".(*ToxicLink).read"),
		goleak.IgnoreAnyFunction(proxy+"/toxics.(*ToxicStub).Run"))
}

// open opens a source.
func open(tb testing.TB, s sources.Spec) lookup.Client {
	tb.Helper()
	s.Name = "shop"
	c, err := sources.Open(s, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// within returns a context with a timeout.
func within(tb testing.TB, d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(stop)
	return ctx
}

// keys returns queries with one parameter each.
func keys(values ...any) []lookup.KeyQuery {
	queries := make([]lookup.KeyQuery, len(values))
	for i, v := range values {
		queries[i].Params = []any{v}
	}
	return queries
}

// lines formats findings: the value, absent, or an error.
func lines(found []checks.Finding, err error) []string {
	if err != nil {
		return []string{sourceLine + err.Error()}
	}
	texts := make([]string, len(found))
	for i, f := range found {
		switch {
		case f.Err != nil:
			texts[i] = "error: " + f.Err.Error()
		case f.Value == nil:
			texts[i] = "absent"
		default:
			texts[i] = string(f.Value)
		}
		if f.Value != nil && (f.Err != nil || !json.Valid(f.Value)) {
			texts[i] = fmt.Sprintf("invalid: %s, %v", f.Value, f.Err)
		}
	}
	return texts
}

// sourceLine is the prefix of an error of the source as a whole.
const sourceLine = "source: "

// checkLines compares findings with expected lines, in which … matches any text.
func checkLines(t *testing.T, want []string, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d findings, want %d, of which the first are\n%s", len(got), len(want), cmp.Diff(want[:min(3, len(want))], got[:min(3, len(got))]))
	}
	for i := range want {
		before, after, some := strings.Cut(want[i], "…")
		if got[i] != want[i] && (!some || !strings.HasPrefix(got[i], before) || !strings.HasSuffix(got[i], after)) {
			t.Errorf("%d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

// repeated returns a line the given number of times.
func repeated(line string, times int) []string {
	all := make([]string, times)
	for i := range all {
		all[i] = line
	}
	return all
}

// newProxy puts a proxy in front of an address.
func newProxy(t *testing.T, upstream string) *toxiproxy.Proxy {
	t.Helper()
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	return proxy
}

// addToxic adds a toxic to the responses of a proxy.
func addToxic(t *testing.T, proxy *toxiproxy.Proxy, kind, attributes string) {
	t.Helper()
	toxic := fmt.Sprintf(`{"type": %q, "stream": "downstream", "attributes": %s}`, kind, attributes)
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it never came true: %s", what)
		}
	}
}

// checkRefused checks for an error of the question with a text.
func checkRefused(t *testing.T, err error, wantText string) {
	t.Helper()
	if !errors.Is(err, lookup.ErrQuestion) || !strings.Contains(err.Error(), wantText) {
		t.Errorf("%v; want lookup.ErrQuestion and %q", err, wantText)
	}
}

// TestInvalidSpecs checks invalid specs. Their errors contain no secrets.
func TestInvalidSpecs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec     sources.Spec
		wantText string
	}{
		{sources.Spec{}, "the kind of the source is missing"},
		{sources.Spec{Postgres: &sources.Postgres{URL: "postgres://u:s3cret@[::1:5432/shop"}}, "the URL is invalid"},
		{sources.Spec{HTTP: &sources.HTTP{}}, "not the URL of a service"},
		{sources.Spec{HTTP: &sources.HTTP{Base: base(t, "ftp://shop/s3cret")}}, "not the URL of a service"},
		{sources.Spec{HTTP: &sources.HTTP{Base: base(t, "https://u:s3cret@shop")}}, "has a user"},
		{sources.Spec{HTTP: &sources.HTTP{Base: base(t, "https://shop?token=s3cret")}}, "has a query"},
		{sources.Spec{HTTP: &sources.HTTP{Base: base(t, "https://shop"), CA: []byte("s3cret")}}, "no certificate"},
	} {
		c.spec.Name = "shop"
		_, err := sources.Open(c.spec, nil)
		if err == nil || !strings.Contains(err.Error(), c.wantText) || !strings.HasPrefix(err.Error(), "source shop: ") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v; want %q", err, c.wantText)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
