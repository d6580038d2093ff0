package storetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"deadman/internal/bus/bustest/freeport"
	"deadman/internal/testdisk"
)

// ErrNoPooler means that the machine has no PgBouncer.
var ErrNoPooler = errors.New("no PgBouncer found; install it (Debian, Ubuntu: apt-get install pgbouncer)")

// Pooler is a running PgBouncer.
type Pooler struct {
	Port int
	dir  string
	cmd  *exec.Cmd
}

// poolerConfig is the configuration of a PgBouncer; %[1]s is the server, %[2]d the port, %[3]s the folder, and %[4]s the mode.
const poolerConfig = `[databases]
* = %[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[2]d
unix_socket_dir =
auth_type = trust
auth_file = %[3]s/users
logfile = %[3]s/log
pool_mode = %[4]s
`

// StartPooler starts a PgBouncer that assigns connections of the server with an address to clients by mode: "session" or
// "transaction". The caller must Stop it.
func StartPooler(host string, port int, mode string) (*Pooler, error) {
	program, err := poolerProgram()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(testdisk.Disk(), "deadman-pgbouncer-")
	if err != nil {
		return nil, fmt.Errorf("start pgbouncer: %w", err)
	}
	p := &Pooler{dir: dir}
	if err := p.start(program, fmt.Sprintf("host=%s port=%d", host, port), mode); err != nil {
		return nil, errors.Join(fmt.Errorf("start pgbouncer: %w", err), p.Stop())
	}
	return p, nil
}

// poolerProgram returns the path of PgBouncer, which Debian installs outside of the path of most users.
func poolerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoPooler
}

func (p *Pooler) start(program, server, mode string) (err error) {
	if p.Port, err = freeport.Find(); err != nil {
		return err
	}
	as, err := account()
	if err != nil {
		return err
	}
	config := filepath.Join(p.dir, "pgbouncer.ini")
	for name, text := range map[string]string{
		config:                        fmt.Sprintf(poolerConfig, server, p.Port, p.dir, mode),
		filepath.Join(p.dir, "users"): `"postgres" ""` + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // another account reads it
			return err
		}
	}
	if as != nil {
		if err := os.Chown(p.dir, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	p.cmd = exec.Command(program, "-q", config)
	p.cmd.Dir = p.dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	return p.wait()
}

// wait returns once the pooler answers a statement.
func (p *Pooler) wait() error {
	for deadline := time.Now().Add(statementTimeout); !ready(p.DSN("postgres")); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, err := os.ReadFile(filepath.Join(p.dir, "log"))
			return errors.Join(fmt.Errorf("it does not answer\n%s", strings.TrimSpace(string(log))), err)
		}
	}
	return nil
}

// DSN returns the address of a database behind the pooler.
func (p *Pooler) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.Port, database)
}

// Stop ends the pooler and removes its files.
func (p *Pooler) Stop() error {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
	}
	return os.RemoveAll(p.dir)
}
