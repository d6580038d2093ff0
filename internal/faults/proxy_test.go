package faults_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is a connection that can be cut, half-opened and slowed.
type link struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

// between puts a link in front of an address.
func between(t *testing.T, upstream string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &link{t, toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", upstream)}
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.proxy.Stop)
	return l
}

func (l *link) addr() string { return l.proxy.Listen }

// fault is a fault of a link.
type fault struct{ name, toxic string }

// faultOf draws a fault of a link. A late answer arrives after the caller gave up.
func faultOf(random *rand.Rand, name string) fault {
	way := []string{"upstream", "downstream"}[random.IntN(2)]
	toxic := func(kind, attributes string) fault {
		return fault{name + " " + way, fmt.Sprintf(`{"name": "fault", "type": %q, "stream": %q, "attributes": {%s}}`, kind, way, attributes)}
	}
	switch name {
	case "half-open":
		return toxic("timeout", `"timeout": 0`)
	case "slow":
		return toxic("latency", fmt.Sprintf(`"latency": %d, "jitter": 100`, 100+random.IntN(400)))
	case "narrow":
		return toxic("bandwidth", fmt.Sprintf(`"rate": %d`, 1+random.IntN(20)))
	case "torn":
		return toxic("limit_data", fmt.Sprintf(`"bytes": %d`, 500+random.IntN(20_000)))
	case "late":
		way = "downstream"
		return toxic("latency", `"latency": 5400, "jitter": 300`)
	}
	return fault{name: "cut"}
}

// injectFor injects a fault into the link for a while.
func (l *link) injectFor(f fault, span time.Duration) {
	l.inject(f)
	pause(span)
	l.remove(f)
}

// inject injects a fault into the link.
func (l *link) inject(f fault) {
	if f.toxic == "" {
		l.proxy.Stop()
		return
	}
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(f.toxic)); err != nil {
		l.t.Error(err)
	}
}

// remove removes the fault.
func (l *link) remove(f fault) {
	var err error
	if f.toxic == "" {
		err = l.proxy.Start()
	} else {
		err = l.proxy.Toxics.RemoveToxic(l.t.Context(), "fault")
	}
	if err != nil {
		l.t.Error(err)
	}
}

// pause waits while a fault lasts. No test asserts the duration.
func pause(span time.Duration) { <-time.After(span) }
