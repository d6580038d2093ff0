package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// TestTemplatesAreAsNew checks that a database copied from a template of storetest has the same schema and the same rows
// as a database that this program migrates from zero, with a number of shards of its own.
func TestTemplatesAreAsNew(t *testing.T) {
	t.Parallel()
	const onPostgres = `SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
	FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'routine ' || proname || ' ' || prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'relation ' || relname || ' ' || relkind::text || ' ' || coalesce(array_to_string(reloptions, ','), '')
	FROM pg_class WHERE relnamespace = 'public'::regnamespace`
	const onSQLite = `SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema`
	for name, c := range map[string]struct {
		objects, tables string
		fresh, copied   store.Options
	}{
		"sqlite": {
			onSQLite, `SELECT name FROM sqlite_schema WHERE type = 'table'`,
			store.Options{DataDir: t.TempDir()},
			store.Options{DataDir: storetest.DataDir(t)},
		},
		"postgres": {
			onPostgres, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`,
			store.Options{DatabaseURL: storetest.EmptyPostgres(t)},
			store.Options{DatabaseURL: storetest.Postgres(t)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			contents := func(o store.Options) (all []string) {
				o.Shards = 7
				s := open(t, o)
				for _, table := range texts(t, s, c.tables) {
					all = append(all, table+" has rows: "+texts(t, s, `SELECT '' || count(*) FROM `+table)[0])
				}
				all = append(all, texts(t, s, c.objects)...)
				for _, setting := range texts(t, s, `SELECT name || '=' || CASE name WHEN 'database_id' THEN 'random' ELSE value END FROM setting`) {
					all = append(all, "setting "+setting)
				}
				slices.Sort(all)
				return all
			}
			fresh := contents(c.fresh)
			if !slices.Contains(fresh, "shard_lease has rows: 7") {
				t.Fatalf("a new database has %d objects, and no 7 shards:\n%s", len(fresh), strings.Join(fresh, "\n"))
			}
			if diff := cmp.Diff(fresh, contents(c.copied)); diff != "" {
				t.Errorf("a copy differs from a new database:\n%s", diff)
			}
		})
	}
}

// texts returns the first column of a query.
func texts(t *testing.T, s *store.Store, query string) (all []string) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
