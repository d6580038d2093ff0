package ha_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

// member is a machine with Patroni and a Postgres server.
type member struct {
	*process
	data string
	api  string
	link *toxiproxy.Proxy // the other members replicate over it
}

// newMember starts the machine with an index.
func (b *bed) newMember(i int) {
	b.Helper()
	as, err := unprivileged()
	if err != nil {
		b.Fatal(err)
	}
	name, address := fmt.Sprintf("pg%d", i+1), fmt.Sprintf("10.0.0.%d", i+1)
	links := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	m := &member{link: toxiproxy.NewProxy(links, name, "127.0.0.1:0", b.files.at(address+":5432"))}
	if err := m.link.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.link.Stop)
	b.pg = append(b.pg, m)
	config := b.files.write(name, "patroni.yml")
	b.files.own(name)
	m.data = filepath.Join(filepath.Dir(config), "data")
	m.api = "http://patroni:secret-of-the-api@" + b.files.at(address+":8008")
	m.process = &process{t: b.T, name: name, dir: filepath.Dir(config), as: as, args: []string{program(b.T, "patroni"), config}}
	b.keep(m.process)
	m.start()
}

// postmaster returns the process of the member's Postgres server.
func (m *member) postmaster() int {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.data, "postmaster.pid"))
	if err != nil {
		m.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		m.t.Fatalf("postmaster.pid: %v", err)
	}
	return pid
}

// killPostgres kills all processes of the Postgres server. Patroni goes on.
func (m *member) killPostgres() {
	m.t.Helper()
	killTree(m.postmaster())
}

// killMachine kills Patroni and all processes of the Postgres server.
func (m *member) killMachine() {
	m.t.Helper()
	server := m.postmaster()
	m.kill()
	killTree(server)
}

// status is the state of a member, as Patroni shows it.
type status struct {
	Name, Role, State string
	Timeline          int
}

// statuses asks the members for the state of all of them, until one answers.
func (b *bed) statuses(ctx context.Context) (all []status, err error) {
	for _, m := range b.pg {
		text, failed := request(ctx, http.MethodGet, m.api+"/cluster", "")
		var cluster struct{ Members []status }
		if failed == nil {
			failed = json.Unmarshal([]byte(text), &cluster)
		}
		if failed == nil {
			return cluster.Members, nil
		}
		err = errors.Join(err, failed)
	}
	return nil, err
}

// memberIn returns the member in a role: "leader", "sync_standby" or "replica".
func (b *bed) memberIn(role string) *member {
	b.Helper()
	var found *member
	within(b.T, "a member is "+role, func(ctx context.Context) error {
		all, err := b.statuses(ctx)
		for _, s := range all {
			for _, m := range b.pg {
				if s.Role == role && s.Name == m.name {
					found = m
					return nil
				}
			}
		}
		return errors.Join(err, fmt.Errorf("members are %v", all))
	})
	return found
}

// awaitPostgres waits until one member is the primary, one a synchronous standby, and all run on the same time line.
func (b *bed) awaitPostgres() { b.awaitMembers("sync_standby") }

// awaitMembers waits until one member is the primary, and another one has a role.
func (b *bed) awaitMembers(role string) {
	b.Helper()
	within(b.T, "all Postgres servers run", func(ctx context.Context) error {
		all, err := b.statuses(ctx)
		roles, lines, running := map[string]int{}, map[int]bool{}, 0
		for _, s := range all {
			roles[s.Role]++
			lines[s.Timeline] = true
			if s.State == "running" || s.State == "streaming" {
				running++
			}
		}
		if err == nil && (running != members || len(lines) != 1 || roles["leader"] != 1 || roles[role] == 0) {
			err = fmt.Errorf("members are %v", all)
		}
		return err
	})
}

// switchOver makes a standby the primary.
func (b *bed) switchOver(from, to *member) {
	b.Helper()
	within(b.T, "the primary is switched over", func(ctx context.Context) error {
		_, err := request(ctx, http.MethodPost, from.api+"/switchover", fmt.Sprintf(`{"leader": %q, "candidate": %q}`, from.name, to.name))
		return err
	})
}

// configure changes the settings of the cluster.
func (b *bed) configure(settings string) {
	b.Helper()
	within(b.T, "the settings are changed", func(ctx context.Context) error {
		_, err := request(ctx, http.MethodPatch, b.memberIn("leader").api+"/config", settings)
		return err
	})
}

// adminURL returns the address of the superuser's database.
func (b *bed) adminURL(way string) string {
	return strings.NewReplacer(":"+password+"@", ":secret-of-postgres@", "/deadman", "/postgres").Replace(b.databaseURL(way, "postgres"))
}

// createDatabase creates the users and the database, and migrates it, as the guide does.
func (b *bed) createDatabase(binary string) {
	b.Helper()
	admin := b.adminURL(proxied)
	within(b.T, "HAProxy leads to the primary", func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, admin)
		if err == nil {
			err = c.Close(ctx)
		}
		return err
	})
	b.command("psql", nil, "-v", "ON_ERROR_STOP=1", "--dbname="+admin, "--file=../../deploy/postgres-roles.sql",
		"--command=ALTER ROLE deadman_owner PASSWORD '"+password+"'", "--command=ALTER ROLE deadman PASSWORD '"+password+"'")
	b.command(binary, []string{"DEADMAN_DATABASE_URL=" + b.databaseURL(proxied, "deadman_owner")}, "migrate")
}

// command runs a command to its end.
func (b *bed) command(name string, env []string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
}
