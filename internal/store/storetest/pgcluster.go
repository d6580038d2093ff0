// Package storetest tests stores: it starts a private Postgres from the machine's own programs and has the test suite
// for every store.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"deadman/internal/bus/bustest/freeport"
	"deadman/internal/testdisk"
)

// ErrNoPostgres means that the machine has no Postgres programs.
var ErrNoPostgres = errors.New(
	"no Postgres programs found; install them (Debian, Ubuntu: apt-get install postgresql) or set DEADMAN_TEST_DATABASE_URL")

// ProgramsEnvironment is the variable with the folder of initdb and postgres; without it, clusters use the machine's newest
// version.
const ProgramsEnvironment = "DEADMAN_TEST_POSTGRES"

// Settings configure a cluster.
type Settings struct {
	// Durable clusters write to disk as in production; others skip it for speed.
	Durable bool
	// Port is the port to listen on; 0: a free one.
	Port int
	// Options are further settings of the server, as name=value.
	Options []string
}

// Cluster is a running private Postgres. It ends with the process that started it.
type Cluster struct {
	Dir  string // its files, sockets and log
	Port int
	DSN  string // of its superuser, in the database postgres

	hold  []*os.File // the server runs while they are open; one for each start
	ended chan error // the server's exit
	again func() error
	stop  func() error
}

// StartCluster starts a private Postgres on a free port of the loopback address, with sockets in its folder. The caller
// must Stop it. The folder of a cluster that is not durable is in memory if there is room: on a disk, creating and removing
// the files of a database takes most of a test's computing time.
func StartCluster(s Settings) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	parent := testdisk.Memory()
	if s.Durable {
		parent = testdisk.Disk()
	}
	return newCluster("start postgres", parent, func(c *Cluster, as *syscall.Credential) error { return c.start(bin, as, s) })
}

// newCluster creates the folder of a server in a parent folder, owned by the server's account, and starts the server.
func newCluster(what, parent string, start func(*Cluster, *syscall.Credential) error) (*Cluster, error) {
	dir, err := os.MkdirTemp(parent, "deadman-postgres-")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	c := &Cluster{Dir: dir, ended: make(chan error, 1)}
	c.stop = sync.OnceValue(c.end)
	as, err := account()
	if err == nil && as != nil {
		err = os.Chown(dir, int(as.Uid), int(as.Gid))
	}
	if err == nil {
		err = start(c, as)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", what, err), c.Stop())
	}
	return c, nil
}

// programs returns the folder of initdb and postgres.
func programs() (string, error) {
	if folder := os.Getenv(ProgramsEnvironment); folder != "" {
		for _, name := range []string{"initdb", "postgres"} {
			if !runs(folder, name) {
				return "", fmt.Errorf("%s is %s, which has no program %s: name the folder of initdb and postgres, such as /usr/lib/postgresql/15/bin", ProgramsEnvironment, folder, name)
			}
		}
		return folder, nil
	}
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(folders, func(a, b string) int { return major(b) - major(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append([]string{filepath.Dir(path)}, folders...)
		}
	}
	for _, folder := range folders {
		if runs(folder, "initdb") && runs(folder, "postgres") {
			return folder, nil
		}
	}
	return "", ErrNoPostgres
}

// major returns the version in a path such as /usr/lib/postgresql/15/bin.
func major(folder string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	if err != nil {
		return 0
	}
	return n
}

func runs(folder, name string) bool {
	_, err := exec.LookPath(filepath.Join(folder, name))
	return err == nil
}

func (c *Cluster) start(bin string, as *syscall.Credential, s Settings) (err error) {
	data := filepath.Join(c.Dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"),
		"-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = c.Dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if c.Port = s.Port; c.Port == 0 {
		if c.Port, err = freeport.Find(); err != nil {
			return err
		}
	}
	c.DSN = c.Database("postgres")
	if err := c.run(as, append([]string{filepath.Join(bin, "postgres")}, c.arguments(data, s)...)...); err != nil {
		return err
	}
	return c.wait()
}

func (c *Cluster) arguments(data string, s Settings) []string {
	options := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(c.Port), "unix_socket_directories=" + c.Dir,
		"max_connections=200", "timezone=UTC",
	}
	if s.Durable {
		options = append(options, "max_wal_size=2GB")
	} else {
		options = append(options, "max_wal_size=256MB", "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	}
	args := []string{"-D", data}
	for _, o := range append(options, s.Options...) {
		args = append(args, "-c", o)
	}
	return args
}

// supervisorScript runs the server for as long as any process holds the other end of its descriptor 3, and then removes the
// folder.
const supervisorScript = `
dir=$1; shift
"$@" </dev/null & server=$!
(
	cat <&3 >/dev/null
	kill -QUIT $server
	while kill -0 $server; do sleep 0.05; done
	rm -rf "$dir"
) </dev/null >/dev/null 2>&1 &
wait $server`

// run starts the server under a keeper.
func (c *Cluster) run(as *syscall.Credential, server ...string) error {
	log, err := os.Create(filepath.Join(c.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	held, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()
	cmd := exec.Command("sh", append([]string{"-c", supervisorScript, "keeper", c.Dir}, server...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.ExtraFiles = log, log, c.Dir, []*os.File{held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true} // an interrupt at the terminal is for the test only
	if err := cmd.Start(); err != nil {
		return errors.Join(err, hold.Close())
	}
	c.hold = append(c.hold, hold)
	c.again = func() error { return c.run(as, server...) }
	go c.await(cmd)
	return nil
}

// await reports the server's exit. Tests that check for leaks exempt it by name: their shared server ends with the
// process.
func (c *Cluster) await(server *exec.Cmd) { c.ended <- server.Wait() }

// wait returns once the server accepts connections.
func (c *Cluster) wait() error {
	deadline := time.After(2 * time.Minute)
	for {
		if ready(c.DSN) {
			return nil
		}
		select {
		case err := <-c.ended:
			c.ended <- err
			return fmt.Errorf("it ended at once: %w\n%s", err, c.log())
		case <-deadline:
			return fmt.Errorf("it does not answer\n%s", c.log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Cluster) log() []byte {
	b, err := os.ReadFile(filepath.Join(c.Dir, "log"))
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(b)
}

// Database returns the DSN of one of the cluster's databases.
func (c *Cluster) Database(name string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.Port, name)
}

// Crash kills all processes of the server, like a failing machine. Its files stay.
func (c *Cluster) Crash() error {
	text, err := os.ReadFile(filepath.Join(c.Dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	server, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	for _, pid := range append(children(server), server) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	err = <-c.ended // the keeper waits for the server
	c.ended <- err
	return nil
}

// children returns the child processes of a process.
func children(parent int) (pids []int) {
	folders, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range folders {
		var pid, of int
		var state string
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		name := bytes.LastIndexByte(text, ')') // the name may contain any character
		if _, err := fmt.Sscan(string(text[name+1:]), &state, &of); err != nil || of != parent {
			continue
		}
		if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Restart starts a crashed server on the same port and waits for its recovery.
func (c *Cluster) Restart() error {
	<-c.ended //nolint:errcheck // it was killed
	if err := c.again(); err != nil {
		return err
	}
	return c.wait()
}

// Stop ends the server and removes its files. It may be called again.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) end() error {
	var err error
	for _, hold := range c.hold {
		err = errors.Join(err, hold.Close())
	}
	if c.hold != nil {
		<-c.ended //nolint:errcheck // it was told to end
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}
