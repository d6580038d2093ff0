package storetest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"deadman/internal/bus/bustest/freeport"
	"deadman/internal/testdisk"
)

// StartStandby starts a standby of the cluster that replicates over an address, for example a proxy to the cluster's
// own.
func (c *Cluster) StartStandby(host, port string) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	return newCluster("start a standby", testdisk.Disk(), func(c *Cluster, as *syscall.Credential) error { return c.startStandby(bin, as, host, port) })
}

func (c *Cluster) startStandby(bin string, as *syscall.Credential, host, port string) (err error) {
	data := filepath.Join(c.Dir, "data")
	copied := exec.Command(filepath.Join(bin, "pg_basebackup"), "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=%s port=%s user=postgres application_name=standby", host, port))
	copied.Dir, copied.SysProcAttr = c.Dir, &syscall.SysProcAttr{Credential: as}
	if out, err := copied.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	if c.Port, err = freeport.Find(); err != nil {
		return err
	}
	c.DSN = c.Database("postgres")
	arguments := c.arguments(data, Settings{Durable: true})
	if err := c.run(as, append([]string{filepath.Join(bin, "postgres")}, arguments...)...); err != nil {
		return err
	}
	return c.wait()
}

// CommitSynchronously makes commits of the cluster wait for its standby from now on.
func (c *Cluster) CommitSynchronously() error {
	return errors.Join(execute(c.DSN, `ALTER SYSTEM SET synchronous_standby_names = 'standby'`), execute(c.DSN, `SELECT pg_reload_conf()`))
}

// Promote makes a standby a primary.
func (c *Cluster) Promote() error { return execute(c.DSN, `SELECT pg_promote(true, 60)`) }
