package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// cluster returns a function that starts the i-th of n servers of a JetStream cluster with first initial members. Each has
// storage for the streams that nodes create by default, whatever room the disk has.
func cluster(t *testing.T, n, first int) (start func(i int) *natsserver.Server) {
	t.Helper()
	return clusterOf(t, n, first, 16<<30)
}

// clusterOf is cluster with the storage of each server, in bytes.
func clusterOf(t *testing.T, n, first int, storage int64) (start func(i int) *natsserver.Server) {
	t.Helper()
	routes, ports, dirs := make([]string, n), make([]int, n), make([]string, n)
	for i := range n {
		ports[i], dirs[i] = bustest.Port(t), bustest.Dir(t)
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", ports[i])
	}
	return func(i int) *natsserver.Server {
		t.Helper()
		srv, err := natsserver.NewServer(&natsserver.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: natsserver.RANDOM_PORT,
			JetStream: true, JetStreamMaxStore: storage, StoreDir: dirs[i], NoSigs: true, NoLog: true,
			Cluster: natsserver.ClusterOpts{Name: "deadman-test", Host: "127.0.0.1", Port: ports[i]},
			Routes:  natsserver.RoutesFromStr(strings.Join(routes[:max(first, i+1)], ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		go srv.Start()
		t.Cleanup(func() { stop(srv) })
		if !srv.ReadyForConnections(20 * time.Second) {
			t.Fatal("a server does not start")
		}
		return srv
	}
}

func stop(srv *natsserver.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// connectCluster connects once the cluster is ready. Until then the error must be ErrUnreachable.
func connectCluster(t *testing.T, servers ...*natsserver.Server) *bus.Bus {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	var last error
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		b, err := bus.Connect(t.Context(), bus.Options{URL: strings.Join(urls, ","), Log: discardLog()})
		if err == nil {
			t.Cleanup(b.Close)
			return b
		}
		if last = err; !errors.Is(err, bus.ErrUnreachable) {
			t.Fatal(err)
		}
	}
	t.Fatalf("the cluster does not come up: %v", last)
	return nil
}

func TestClusterReplicatesAndOutlivesServer(t *testing.T) {
	start := cluster(t, 3, 3)
	servers := []*natsserver.Server{start(0), start(1), start(2)}
	b := connectCluster(t, servers...)
	bind(t, b, "orders.created")
	js := bustest.JetStream(t, servers[0].ClientURL())
	for _, name := range []string{bus.AlertsStream, bus.EventsStream} {
		if got := replicasOf(t, js, name); got != 3 {
			t.Errorf("%s has %d copies, want 3", name, got)
		}
	}
	for range 20 {
		publish(t, b, "orders.created")
	}
	if got := drain(t, b, bus.EventsStream, 0, "orders.created"); len(got) != 20 {
		t.Errorf("%d events, want 20", len(got))
	}
	batch := someAlerts(50)
	for range 2 { // the second time they exist already
		if sent, err := b.AlertPublisher.Publish(t.Context(), batch); err != nil || len(sent) != len(batch) {
			t.Fatalf("%d of %d, %v", len(sent), len(batch), err)
		}
	}
	if sizes, alone := batchesOf(storedMessages(t, js)); !slices.Equal(sizes, []int{50}) || alone != 0 {
		t.Errorf("in batches of %v, and %d alone", sizes, alone)
	}

	stop(servers[1])
	more := someAlerts(100)
	testwait.Until(t, "alerts are published with one server less", func() bool {
		sent, err := b.AlertPublisher.Publish(t.Context(), more)
		return err == nil && len(sent) == len(more)
	})
	if got := follow(t, b, 200, 100); len(got) != 100 {
		t.Errorf("%d alerts", len(got))
	}
	info, err := b.Streams.Info(t.Context(), bus.AlertsStream)
	if err != nil || info.LastSeq != 100 {
		t.Errorf("%d alerts in the stream, want 100: %v", info.LastSeq, err)
	}
}

// The streams are replicated also if the servers have too little storage for the stream of events, which is smaller then.
func TestClusterWithLittleStorage(t *testing.T) {
	start := clusterOf(t, 3, 3, 7<<29) // the stream of alerts reserves 1.25 GiB for a moment
	servers := []*natsserver.Server{start(0), start(1), start(2)}
	b := connectCluster(t, servers...)
	bind(t, b, "orders.created")
	js := bustest.JetStream(t, servers[0].ClientURL())
	s, err := js.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if cfg := s.CachedInfo().Config; cfg.MaxBytes != 2<<30 || cfg.Replicas != 3 {
		t.Errorf("the stream has %d bytes and %d copies, want 2 GiB and 3", cfg.MaxBytes, cfg.Replicas)
	}
}

func replicasOf(t *testing.T, js jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config.Replicas
}

func TestStreamsGetTheirCopiesLater(t *testing.T) {
	start := cluster(t, 3, 2)
	one, two := start(0), start(1)
	b := connectCluster(t, one, two)
	bind(t, b, "orders.created")
	js := bustest.JetStream(t, one.ClientURL())
	for _, name := range []string{bus.AlertsStream, bus.EventsStream} {
		if got := replicasOf(t, js, name); got != 1 {
			t.Errorf("%s has %d copies of two servers", name, got)
		}
	}
	publish(t, b, "orders.created")

	three := start(2)
	testwait.Until(t, "there are three copies", func() bool {
		connectCluster(t, one, two, three).Close()
		return replicasOf(t, js, bus.AlertsStream) == 3 && replicasOf(t, js, bus.EventsStream) == 3
	})
	if got := drain(t, b, bus.EventsStream, 0, "orders.created"); len(got) != 1 {
		t.Errorf("%d events, want 1", len(got))
	}
}
