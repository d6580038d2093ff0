// Package ha_test runs three nodes on the parts that an operator installs for high availability, and breaks those parts: etcd,
// Patroni with three Postgres servers, HAProxy, PgBouncer and three NATS servers, with the configuration of deploy/ha. A
// judge that knows only the streams of events and alerts counts lost, repeated, wrong and late alerts.
package ha_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// natsRole is the environment variable that makes this program a NATS server; its value is the path of the configuration.
const natsRole = "DEADMAN_HA_NATS"

// other is a program to test instead of one built from the source.
var other = flag.String("program", "", "path of the deadman to test; empty: the present source")

// pooling is the way of the nodes to Postgres in the subtests whose name does not name one.
var pooling = flag.String("pooler", transactions, "way of the nodes to Postgres: "+transactions+", "+sessions+", "+proxied+" or "+direct)

func TestMain(m *testing.M) {
	if path := os.Getenv(natsRole); path != "" {
		fmt.Fprintln(os.Stderr, "nats:", serveNATS(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveNATS runs a NATS server until the process is killed.
func serveNATS(path string) error {
	signal.Ignore(os.Interrupt)
	o, err := natsserver.ProcessConfigFile(path)
	if err != nil {
		return err
	}
	o.NoSigs = true
	s, err := natsserver.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return fmt.Errorf("the server ended")
}

// build builds the program under test in a folder.
func build(t *testing.T, dir string) string {
	t.Helper()
	if *other != "" {
		return *other
	}
	path := filepath.Join(dir, "deadman")
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, "../../cmd/deadman").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// unprivileged returns the account of the servers that refuse to run as root; nil: that of this process.
var unprivileged = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
})

// program returns the path of a server. Debian installs servers outside of the path of most users.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, filepath.Join(postgresPrograms, name)} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skipf("%s is missing; internal/tools/needs patroni pgbouncer postgres installs it", name)
	return ""
}
