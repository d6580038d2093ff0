package server_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// replicated is a Postgres with a standby, and two nodes that connect to the current primary.
type replicated struct {
	*testing.T
	primary, standby *storetest.Cluster
	link             *toxiproxy.Proxy // connection of the standby's replication
	nats             string
	nodes            []*node
}

func newReplicated(t *testing.T, synchronous bool) *replicated {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled)
	r := &replicated{T: t, nats: startNATS(t)}
	stop := func(c *storetest.Cluster) func() {
		return func() {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	var err error
	if r.primary, err = storetest.StartCluster(storetest.Settings{Durable: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop(r.primary))
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	r.link = toxiproxy.NewProxy(proxies, t.Name(), "127.0.0.1:0", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.primary.Port)))
	if err := r.link.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.link.Stop)
	host, port, err := net.SplitHostPort(r.link.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if r.standby, err = r.primary.StartStandby(host, port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop(r.standby))
	if synchronous {
		if err := r.primary.CommitSynchronously(); err != nil {
			t.Fatal(err)
		}
	}
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write", r.primary.Port, r.standby.Port)
	rules := ruleFolder(t, map[string]string{"payment.yaml": unpaidRule})
	for range 2 {
		r.nodes = append(r.nodes, startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: r.nats, Rules: rules, Lease: 3 * time.Second}))
	}
	return r
}

// publishFor publishes an event for each key.
func (r *replicated) publishFor(what string, keys ...string) {
	r.Helper()
	js := bustest.JetStream(r.T, r.nats)
	for _, key := range keys {
		if _, err := js.Publish(r.Context(), "payments."+what, fmt.Appendf(nil, `{"id":%q}`, key)); err != nil {
			r.Fatal(err)
		}
	}
}

// waitForAlerts waits until an alert with the status was raised for each key.
func (r *replicated) waitForAlerts(status string, keys ...string) {
	r.Helper()
	r.nodes[0].eventually(fmt.Sprintf("%s of %s", status, keys), func() bool {
		got := consume(r.T, r.nats)
		return !slices.ContainsFunc(keys, func(key string) bool { return got.raised[key+" "+status+" primary"] == 0 })
	})
}

// failOver kills the primary and promotes the standby. Events sent meanwhile stay in their stream.
func (r *replicated) failOver(meanwhile func()) {
	r.Helper()
	if err := r.primary.Stop(); err != nil {
		r.Fatal(err)
	}
	meanwhile()
	if err := r.standby.Promote(); err != nil {
		r.Fatal(err)
	}
}

// keys returns n keys with a letter.
func keys(letter string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d", letter, i)
	}
	return all
}

// The primary fails and its standby takes over. Whether or not commits are lost, no alert is missing, raised twice or
// open forever.
func TestFailoverRaisesAndClosesEachAlertOnce(t *testing.T) {
	t.Parallel()
	for _, synchronous := range []bool{false, true} {
		name := "asynchronous"
		if synchronous {
			name = "synchronous"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t, synchronous)
			known, lost, later := keys("known", 10), keys("lost", 20), keys("later", 5)
			r.publishFor("started", known...)
			r.waitForAlerts("firing", known...)
			if !synchronous { // the standby never receives commits from here on
				r.link.Stop()
			}
			r.publishFor("started", lost...)
			r.waitForAlerts("firing", lost...)
			r.publishFor("confirmed", append(known[:2:2], lost[:5]...)...)
			r.waitForAlerts("resolved", append(known[:2:2], lost[:5]...)...)
			r.failOver(func() { r.publishFor("confirmed", append(known[2:3:3], lost[5:10]...)...) })
			r.publishFor("started", later...)

			r.waitForAlerts("resolved", append(known[2:3:3], lost[5:10]...)...)
			r.waitForAlerts("firing", later...)
			r.publishFor("confirmed", append(append(known[3:], lost[10:]...), later...)...)
			r.waitForAlerts("resolved", append(append(known[3:], lost[10:]...), later...)...)
			got := consume(t, r.nats)
			got.checkNoneOpen(t)
			reports := 0
			for _, a := range got.own {
				if a.Key == "database" && a.Status == "firing" {
					reports++
					t.Log(a.Text)
					if a.Count == 0 || // alerts that ingest has raised again are known
						!strings.Contains(a.Text, "DEADMAN_EVENTS after sequence") {
						t.Errorf("the report counts %d alerts: %s", a.Count, a.Text)
					}
				}
			}
			if want := map[bool]int{true: 0, false: 1}[synchronous]; reports != want {
				t.Errorf("%d reports of a database that went back, want %d", reports, want)
			}
		})
	}
}

// TestDeadNodesAreNotListed checks that the list of nodes has live ones only, as after a kill or in a restored database.
func TestDeadNodesAreNotListed(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t)})
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO node (id, name, version, started_at, seen_at, expires_at, doing, schema_known)
SELECT 'killed', 'killed/1', version, started_at, now() - interval '1 minute', now() - interval '1 second', '', schema_known FROM node LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	var listed struct {
		Items []struct {
			Name   string
			Shards []int16
		}
	}
	n.eventually("the live node holds all shards", func() bool {
		n.get("/api/v1/nodes", &listed)
		return len(listed.Items) == 1 && listed.Items[0].Name == server.NodeName() && len(listed.Items[0].Shards) == 16
	})
}
