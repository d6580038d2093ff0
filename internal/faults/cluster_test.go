package faults_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats.go"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/faults"
	"deadman/internal/store/storetest"
)

// cluster is one database and one broker for the nodes of a test.
type cluster struct {
	*testing.T
	*faults.Checker
	dsn, url string
}

// broker starts a NATS server for several nodes.
func broker(t *testing.T) (url string) {
	t.Helper()
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.ClientURL()
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, Checker: &faults.Checker{}, dsn: storetest.Postgres(t), url: broker(t)}
	var err error
	if c.DB, err = sql.Open("pgx", c.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.DB.Close() })
	if c.NATS, err = nats.Connect(c.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.NATS.Close)
	return c
}

// start starts a node of the cluster and waits until it serves.
func (c *cluster) start(name string) *process {
	c.Helper()
	return startNode(c.T, name, "--database-url", c.dsn, "--nats-url", c.url)
}

// holders returns the number of shards held by each live node according to the database.
func (c *cluster) holders() map[string]int {
	c.Helper()
	rows, err := c.DB.Query(`SELECT n.name, count(*) FROM shard_lease l JOIN node n ON n.id = l.node
		WHERE l.expires_at > now() GROUP BY n.name`)
	if err != nil {
		c.Fatal(err)
	}
	defer rows.Close()
	held := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			c.Fatal(err)
		}
		held[name[strings.LastIndex(name, "/")+1:]] += n
	}
	if err := rows.Err(); err != nil {
		c.Fatal(err)
	}
	return held
}

// isSpread reports whether exactly these nodes hold all 16 shards, evenly.
func (c *cluster) isSpread(nodes ...*process) bool {
	held := c.holders()
	sum, least, limit := 0, 16, 0
	for _, p := range nodes {
		n := held[fmt.Sprint(p.Process.Pid)]
		sum, least, limit = sum+n, min(least, n), max(limit, n)
	}
	return sum == 16 && limit-least <= 1
}
