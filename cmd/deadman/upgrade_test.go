package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // reads the database beside the nodes

	"deadman/internal/faults"
)

// upgradeRule raises an alert for each event that is not resolved within 2 s.
const upgradeRule = `
name: upgrade
entity: order
trigger: {event: upgrade.begun, key: event.id}
resolve: {event: upgrade.done, key: event.id}
escalate: [{after: 2s, step: late, severity: error}]
slot: 1s
`

// servingLine matches the log line with the node's address.
var servingLine = regexp.MustCompile(`"msg":"serving",.*"http":"(http[^"]+)"`)

// repository returns the folder of the repository.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// buildOlder builds the last commit with a schema one version older.
func buildOlder(t *testing.T) string {
	t.Helper()
	program, err := faults.Older(t.Context(), repository(t))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// buildNewer builds the current sources with two more migrations.
func buildNewer(t *testing.T) string {
	t.Helper()
	newest, err := faults.NewestMigration(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if _, err := fmt.Sscanf(newest, "%d_", &version); err != nil {
		t.Fatal(err)
	}
	dir, overlay := t.TempDir(), map[string]string{}
	for _, database := range []string{"postgres", "sqlite"} {
		for i := 1; i <= 2; i++ {
			name, text := fmt.Sprintf("%05d_later.sql", version+i), fmt.Sprintf("-- +goose Up\nCREATE TABLE later_%d (id int PRIMARY KEY);\n", i)
			if i == 2 && database == "postgres" { // as docs/operations/upgrading.md tells to build an index beside the nodes
				text = "-- +goose NO TRANSACTION\n-- +goose Up\nDROP INDEX CONCURRENTLY IF EXISTS later;\nCREATE INDEX CONCURRENTLY later ON alert (key);\n"
			}
			file := writeFile(t, dir, database+name, text)
			overlay[filepath.Join(repository(t), "migrations", database, name)] = file
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "deadman")
	if err := faults.Build(t.Context(), repository(t), program, "-overlay", writeFile(t, dir, "overlay.json", string(raw))); err != nil {
		t.Fatal(err)
	}
	return program
}

// TestUpgrade replaces nodes one after the other under load: an older version serves, the current one joins and
// migrates the schema, and the older one leaves, returns for a while, and leaves for good.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nodes are stopped by a signal")
	}
	older := buildOlder(t)
	f := newFleet(t)
	first := f.startReady(older)
	before := f.queryInt(`SELECT max(version_id) FROM schema_version`)
	stop := f.startLoad()
	done := func(n int) func() bool { // n more ended jobs than now
		n += f.queryInt(`SELECT count(*) FROM history`)
		return func() bool { return f.queryInt(`SELECT count(*) FROM history`) >= n }
	}
	f.eventually("the older node decides", done(100))

	f.startReady(os.Args[0])
	f.eventually("both hold shards", func() bool { return f.holders() == 2 })
	if after := f.queryInt(`SELECT max(version_id) FROM schema_version`); after != before+1 {
		t.Errorf("the schema went from version %d to %d", before, after)
	}
	f.eventually("both decide", done(200))
	first.stop()
	f.eventually("the current node decides alone", done(200))
	again := f.startReady(older) // as in a rollback
	f.eventually("both hold shards again", func() bool { return f.holders() == 2 })
	f.eventually("both decide again", done(200))
	again.stop()
	f.checkPromises(stop())
}

// TestNodeWithOldSchemaHandsOver checks that a program two schema versions ahead waits for the nodes that
// could not follow. With --force it leaves them behind: they hand over their shards and report it.
func TestNodeWithOldSchemaHandsOver(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nodes are stopped by a signal")
	}
	newer := buildNewer(t)
	f := newFleet(t)
	left := f.startReady(os.Args[0])
	stop := f.startLoad()

	ahead := f.start(newer)
	f.eventually("the newer node waits", func() bool { return strings.Contains(ahead.log.String(), "schema cannot be migrated yet") })
	if log := ahead.log.String(); !strings.Contains(log, fmt.Sprintf("/%d ", left.cmd.Process.Pid)) {
		t.Errorf("the log does not name the node that is in the way:\n%s", log)
	}
	f.runProgram(newer, exitCondition, "schema not supported; stop or replace the node", "migrate", "--check")
	f.runProgram(newer, exitFailure, "first stop or replace node", "migrate")
	if left.ready() != http.StatusOK {
		t.Error("the node that is in the way is not ready any more")
	}
	f.runProgram(newer, exitOK, "applied: ", "migrate", "--force")
	f.runProgram(os.Args[0], exitFailure, "run the version of deadman that migrated it", "serve", "--http-addr", "127.0.0.1:0")

	f.eventually("the node that was left behind is not ready", func() bool { return left.ready() == http.StatusServiceUnavailable })
	f.eventually("the newer node serves", func() bool { return ahead.ready() == http.StatusOK })
	f.eventually("the node that was left behind holds no shard", func() bool {
		return f.holders() == 1 && f.queryInt(`SELECT count(*) FROM shard_lease l JOIN node n ON n.id = l.node WHERE n.name LIKE '%/' || $1`, fmt.Sprint(left.cmd.Process.Pid)) == 0
	})
	f.eventually("it is alerted", func() bool { return f.queryInt(`SELECT count(*) FROM alert WHERE key = 'schema'`) == 1 })
	if !strings.Contains(left.log.String(), "schema too new for this node") {
		t.Error("the node that was left behind does not log it")
	}
	left.stop()
	f.eventually("the alert is resolved", func() bool { return f.queryInt(`SELECT count(*) FROM alert WHERE key = 'schema'`) == 2 })
	f.checkPromises(stop())
}
