package faults_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"deadman/internal/bus/bustest"
)

// brokerRole is the environment variable that makes this program a NATS server; its value configures the server.
const brokerRole = "DEADMAN_FAULTS_BROKER"

// natsProcess is a NATS server in another process, which can be killed.
type natsProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	Name  string
	Dir   string
	Port  int
	Route int   // port for the cluster; 0: not clustered
	Peers []int // cluster ports of all servers
}

// runBroker serves until the process is killed. Acknowledged messages are on disk.
func runBroker(role string) {
	var s natsProcess
	err := json.Unmarshal([]byte(role), &s)
	if err == nil {
		err = s.serve()
	}
	fmt.Fprintln(os.Stderr, "broker:", err)
	os.Exit(1)
}

func (s *natsProcess) serve() error {
	o := &natsserver.Options{
		ServerName: s.Name, Host: "127.0.0.1", Port: s.Port, JetStream: true, StoreDir: s.Dir,
		SyncAlways: true, NoSigs: true, NoLog: true,
	}
	if s.Route > 0 {
		var routes []string
		for _, port := range s.Peers {
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
		}
		o.Cluster = natsserver.ClusterOpts{Name: "campaign", Host: "127.0.0.1", Port: s.Route}
		o.Routes = natsserver.RoutesFromStr(strings.Join(routes, ","))
	}
	nats, err := natsserver.NewServer(o)
	if err != nil {
		return err
	}
	nats.Start()
	nats.WaitForShutdown()
	return fmt.Errorf("the server ended")
}

func (s *natsProcess) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.Port) }

// start starts the server and waits until it accepts connections.
func (s *natsProcess) start() {
	s.t.Helper()
	s.run()
	s.await()
}

// run starts the server.
func (s *natsProcess) run() {
	s.t.Helper()
	role, err := json.Marshal(s)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), brokerRole+"="+string(role))
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.kill)
}

// await waits until the server accepts connections.
func (s *natsProcess) await() {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "the broker takes connections", func() bool {
		conn, err := nats.Connect(s.url())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// kill kills the server. It may be called repeatedly.
func (s *natsProcess) kill() {
	_ = s.cmd.Process.Kill() // the process may have ended
	_ = s.cmd.Wait()
}

// newServers starts n servers; several servers form a cluster.
func newServers(t *testing.T, n int) []*natsProcess {
	t.Helper()
	all, routes := make([]*natsProcess, n), make([]int, 0, n)
	for i := range all {
		all[i] = &natsProcess{t: t, Name: fmt.Sprintf("n%d", i), Dir: bustest.Dir(t), Port: bustest.Port(t)}
		if n > 1 {
			all[i].Route = bustest.Port(t)
			routes = append(routes, all[i].Route)
		}
	}
	for _, s := range all {
		s.Peers = routes
		s.run()
	}
	for _, s := range all {
		s.await()
	}
	return all
}
