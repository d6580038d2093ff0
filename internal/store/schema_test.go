package store_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // opens a database as an older program left it
	"github.com/pressly/goose/v3"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/migrations"
)

// atVersion returns a database at a version of the schema, with a live node of the program that migrated it.
func atVersion(t *testing.T, version int64) (dsn string, db *sql.DB) {
	t.Helper()
	dsn = storetest.EmptyPostgres(t)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	files, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName("schema_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO node (id, name, version, started_at, seen_at, expires_at, doing)
VALUES ('1', 'old-host/7', 'v0.1.0', now(), now(), now() + interval '1 hour', '')`); err != nil {
		t.Fatal(err)
	}
	return dsn, db
}

// TestMigrationStopsAtWhatLiveNodesCanFollow checks that a program migrates no further than every live node can follow,
// and names the nodes to replace.
func TestMigrationStopsAtWhatLiveNodesCanFollow(t *testing.T) {
	t.Parallel()
	dsn, db := atVersion(t, 15)
	o := store.Options{DatabaseURL: dsn}
	_, err := store.Open(t.Context(), o)
	if !errors.Is(err, store.ErrNodeBehind) {
		t.Fatalf("open: %v, want ErrNodeBehind", err)
	}
	for _, part := range []string{"old-host/7", "v0.1.0", "up to version 16", "from version 15 to ", "migrate --force"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	schema, err := store.ReadSchema(t.Context(), o)
	if err != nil || schema.Applied != 15 || len(schema.Pending) < 2 || len(schema.Behind()) != 1 {
		t.Errorf("the schema is %+v, %v", schema, err)
	}

	// A dead node does not count.
	if _, err := db.ExecContext(t.Context(), `UPDATE node SET expires_at = now()`); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if schema, err := store.ReadSchema(t.Context(), o); err != nil || schema.Applied != schema.Known || len(schema.Pending) > 0 {
		t.Errorf("the schema is %+v, %v", schema, err)
	}
}

func TestMigrationCanExceedLiveNodes(t *testing.T) {
	t.Parallel()
	dsn, _ := atVersion(t, 15)
	before, after, err := store.Migrate(t.Context(), store.Options{DatabaseURL: dsn}, true)
	if err != nil || before.Applied != 15 || after.Applied != after.Known || len(after.Nodes) != 1 {
		t.Errorf("from %+v to %+v, %v", before, after, err)
	}
}

// TestMigrationExceedsLiveNodeByOneVersion checks that a live node follows to one version after its own.
func TestMigrationExceedsLiveNodeByOneVersion(t *testing.T) {
	t.Parallel()
	newest, err := store.ReadSchema(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	olderVersion := newest.Known - 1
	dsn, db := atVersion(t, olderVersion)
	if olderVersion > 16 { // from then on nodes report their version
		if _, err := db.ExecContext(t.Context(), `UPDATE node SET schema_known = $1`, olderVersion); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := store.ReadSchema(t.Context(), store.Options{DatabaseURL: dsn})
	if err != nil || len(schema.Nodes) != 1 || schema.Nodes[0].Schema != olderVersion {
		t.Fatalf("the schema is %+v, %v", schema, err)
	}
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: dsn})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
}

// TestKnownSchemaIsReported checks that a node reports the version of the schema that its program knows, and
// counts as that version: here one below that of the schema.
func TestKnownSchemaIsReported(t *testing.T) {
	t.Parallel()
	newest, err := store.ReadSchema(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	dsn, db := atVersion(t, newest.Known)
	for _, known := range []int64{newest.Known, newest.Known - 1, 9} {
		if _, err := db.ExecContext(t.Context(), `UPDATE node SET schema_known = $1`, known); err != nil {
			t.Fatal(err)
		}
		schema, err := store.ReadSchema(t.Context(), store.Options{DatabaseURL: dsn})
		if err != nil || len(schema.Nodes) != 1 || schema.Nodes[0].Schema != known {
			t.Errorf("the node knows %d, and the schema is %+v, %v", known, schema, err)
		}
	}
}

// TestNodesBehindMigration checks that a node is behind a migration to two versions past its own, and never behind
// without a migration.
func TestNodesBehindMigration(t *testing.T) {
	node := func(id string, known int64) futurejobs.Node { return futurejobs.Node{ID: id, Schema: known} }
	nodes := []futurejobs.Node{node("same", 20), node("one before", 19), node("two before", 18), node("long before", 9)}
	for _, c := range []struct {
		pending int
		want    string
	}{{1, "two before, long before"}, {0, ""}} {
		schema := store.Schema{Known: 20, Applied: 20 - int64(c.pending), Pending: make([]string, c.pending), Nodes: nodes}
		var behind []string
		for _, n := range schema.Behind() {
			behind = append(behind, n.ID)
		}
		if got := strings.Join(behind, ", "); got != c.want {
			t.Errorf("with %d migrations to come behind are %q, want %q", c.pending, got, c.want)
		}
	}
}

// TestReadSchemaMakesNoDatabase checks that reading the schema of a folder without a database creates none.
func TestReadSchemaMakesNoDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	schema, err := store.ReadSchema(t.Context(), store.Options{DataDir: dir})
	if err != nil || schema.Applied != 0 || len(schema.Pending) == 0 || schema.Known == 0 {
		t.Errorf("the schema is %+v, %v", schema, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

func TestTooNew(t *testing.T) {
	for applied, want := range map[int64]bool{16: false, 17: false, 18: false, 19: true} {
		if got := store.TooNew(applied, 17); got != want {
			t.Errorf("version %d is too new for a program that knows 17: %t", applied, got)
		}
	}
}

// TestDatabaseID checks that a new database has an id of its own, and that one of an earlier version gets the given one, or a
// random one.
func TestDatabaseID(t *testing.T) {
	dir := t.TempDir()
	storetest.SQLite(t, dir)
	dsn := storetest.Postgres(t)
	for driver, c := range map[string]struct {
		options store.Options
		file    string
	}{
		"sqlite": {store.Options{DataDir: dir, Shards: 2}, "file:" + filepath.Join(dir, store.DatabaseFile)},
		"pgx":    {store.Options{DatabaseURL: dsn, Shards: 2}, dsn},
	} {
		t.Run(driver, func(t *testing.T) {
			s, err := store.Open(t.Context(), c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			db, err := sql.Open(driver, c.file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			asBefore := func() { // as an earlier version made it
				if _, err := db.ExecContext(t.Context(), `DELETE FROM setting WHERE name = 'database_id'`); err != nil {
					t.Fatal(err)
				}
			}
			first, err := s.DatabaseID(t.Context(), "given")
			if err != nil || uuid.Validate(first) != nil {
				t.Fatalf("a new database has the id %q, %v", first, err)
			}
			asBefore()
			for _, otherwise := range []string{"given", "other"} {
				if got, err := s.DatabaseID(t.Context(), otherwise); err != nil || got != "given" {
					t.Errorf("a database without an id, and %s: %q, %v", otherwise, got, err)
				}
			}
			asBefore()
			if got, err := s.DatabaseID(t.Context(), ""); err != nil || uuid.Validate(got) != nil || got == first {
				t.Errorf("a database without an id, and none: %q, %v", got, err)
			}
		})
	}
}

// TestOlderNodeTakesLaterMuteForEnded checks that a node of the schema before 37 mutes nothing by a mute that begins later.
func TestOlderNodeTakesLaterMuteForEnded(t *testing.T) {
	for name, options := range map[string]store.Options{"sqlite": {DataDir: storetest.DataDir(t)}, "postgres": {DatabaseURL: storetest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options)
			now, err := s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, starts := range []time.Time{{}, now.Add(time.Hour)} {
				m := alerts.Mute{Match: alerts.Match{"site": "north"}, Reason: "upgrade", StartsAt: starts, EndsAt: now.Add(2 * time.Hour)}
				if _, err := s.CreateMute(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			// The statements of the node of schema 36, at the creation and in the time of the later mute.
			for _, at := range []time.Time{now.Add(time.Minute), now.Add(90 * time.Minute)} {
				var live, newest int64
				if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*), max(id) FROM mute WHERE ends_at > $1`, at).Scan(&live, &newest); err != nil {
					t.Fatal(err)
				}
				if live != 1 || newest != 1 {
					t.Errorf("the older node mutes by %d mutes, the newest is %d, want the first one alone", live, newest)
				}
			}
		})
	}
}
