package migrations_test

import (
	"strings"
	"testing"
)

// refused are migrations with a part of the message that refuses them.
var refused = map[string]string{
	"DROP TABLE alert;":                                                     "takes away",
	"DROP INDEX alert_raised;":                                              "takes away",
	"DROP INDEX CONCURRENTLY IF EXISTS alert_raised;":                       "takes away",
	"DROP VIEW open_alerts;":                                                "takes away",
	"drop table if exists alert;":                                           "takes away",
	"ALTER TABLE alert DROP COLUMN detail;":                                 "takes away",
	"ALTER TABLE alert DROP detail;":                                        "takes away",
	"ALTER TABLE alert DROP CONSTRAINT alert_pkey;":                         "takes away",
	"ALTER TABLE alert ALTER COLUMN detail DROP DEFAULT;":                   "takes away",
	"ALTER TABLE alert RENAME TO alerts;":                                   "takes away a name",
	"ALTER TABLE a RENAME COLUMN b TO c;":                                   "takes away a name",
	"ALTER INDEX a RENAME TO b;":                                            "takes away a name",
	"ALTER TABLE a ALTER COLUMN b TYPE smallint;":                           "changes a type",
	"ALTER TABLE a ALTER b SET DATA TYPE varchar(10);":                      "changes a type",
	"ALTER TABLE a ALTER COLUMN b SET NOT NULL;":                            "may write",
	"ALTER TABLE a ADD COLUMN b int, ALTER COLUMN c SET NOT NULL;":          "may write",
	"ALTER TABLE a ADD COLUMN b int NOT NULL;":                              "NOT NULL without DEFAULT",
	"ALTER TABLE a ADD b int NOT NULL;":                                     "NOT NULL without DEFAULT",
	"ALTER TABLE a ADD COLUMN b int NOT NULL DEFAULT NULL;":                 "NOT NULL without DEFAULT",
	"ALTER TABLE a ADD COLUMN b int DEFAULT 0, ADD COLUMN c int NOT NULL;":  "NOT NULL without DEFAULT",
	"ALTER TABLE a ADD COLUMN IF NOT EXISTS b numeric(10, 2) NOT NULL;":     "NOT NULL without DEFAULT",
	"ALTER TABLE a ADD COLUMN b text NOT NULL CHECK (b <> ' DEFAULT ');":    "NOT NULL without DEFAULT",
	"ALTER TABLE a ADD COLUMN b int DEFAULT 0 UNIQUE;":                      "may write",
	"ALTER TABLE a ADD COLUMN b int REFERENCES c (id);":                     "refuses deletions",
	"ALTER TABLE a ADD CONSTRAINT b CHECK (c > 0);":                         "may write",
	"ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES c (id);":                  "may write",
	"CREATE TABLE a (b int REFERENCES rule (id));":                          "refuses deletions",
	"CREATE UNIQUE INDEX CONCURRENTLY a ON alert (key);":                    "may write",
	"DELETE FROM alert WHERE id = 1;":                                       "takes away rows",
	"TRUNCATE alert;":                                                       "takes away rows",
	"CREATE TRIGGER a BEFORE INSERT ON b EXECUTE FUNCTION c();":             "teach the test",
	"DO $$ BEGIN ALTER TABLE a DROP COLUMN b; END $$;":                      "teach the test",
	"CREATE TABLE a (b int);\n-- +goose Down\nDROP TABLE a;":                "never reverted",
	"-- unused since 7.0.0: read by no node\nDROP TABLE alert;":             "7.0.0, which is no release",
	"-- unused since 0.1.0: read by no node\nDROP TABLE a;\nDROP TABLE b;":  ":3: DROP TABLE B",
	"-- DROP TABLE c;\n/* two\nlines */ SELECT 1; INSERT INTO a VALUES (1)": ":3: SELECT 1",
}

// allowed are migrations beside which a node of the version before works.
var allowed = []string{
	"ALTER TABLE a ADD COLUMN b int NOT NULL DEFAULT 0;",
	"ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT 'DROP TABLE a; it''s';",
	"ALTER TABLE a ADD COLUMN b int, ADD COLUMN c numeric(10, 2) NOT NULL DEFAULT 0;",
	"ALTER TABLE a ADD COLUMN b int UNIQUE;",
	"ALTER TABLE a ADD COLUMN b int; -- DROP TABLE a, some day",
	"ALTER TABLE a ADD COLUMN b int; /* DROP TABLE a; */",
	`ALTER TABLE public."a" ADD COLUMN "drop" int;`,
	"ALTER TABLE a ADD COLUMN rename text;",
	"ALTER TABLE a ALTER COLUMN b SET DEFAULT 1;",
	"ALTER TABLE history ALTER COLUMN check_slowest DROP NOT NULL",
	"CREATE TABLE a (b int NOT NULL PRIMARY KEY, c text UNIQUE); CREATE UNIQUE INDEX d ON a (b, c);",
	"CREATE TABLE a (b int PRIMARY KEY); CREATE TABLE c (b int REFERENCES a (b));",
	"INSERT INTO pruned (name, rows) VALUES ('a', 0); UPDATE a SET b = 1; COMMENT ON TABLE a IS 'x';",
	"-- unused since 0.1.0: node has read the table alert_state instead\nALTER TABLE alert DROP COLUMN detail;",
}

// TestRefusedMigrations checks that each refusal has the file, the line, the reason and the remedy, on both databases.
func TestRefusedMigrations(t *testing.T) {
	for _, database := range []string{"postgres", "sqlite"} {
		lint := additions{database: database, version: firstRelease + 1, releases: []string{"0.1.0"}}
		for text, want := range refused {
			got := lint.faults("migrations/x.sql", text)
			if len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "migrations/x.sql:") || !strings.HasSuffix(got[0], remedy) {
				t.Errorf("%s: %s: %q, want one refusal with %q and the remedy", database, text, got, want)
			}
		}
		for _, text := range allowed {
			if got := lint.faults("migrations/x.sql", text); len(got) > 0 {
				t.Errorf("%s: %s: %q", database, text, got)
			}
		}
	}
}

// TestIndexesAreBuiltBesideTheNodes checks that the build of an index of an existing table does not stop the nodes of a
// Postgres database. Nodes of a SQLite file are not running.
func TestIndexesAreBuiltBesideTheNodes(t *testing.T) {
	const (
		locking    = "CREATE INDEX a ON alert (key);"
		concurrent = "-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS a;\nCREATE INDEX CONCURRENTLY a ON alert (key);"
		unique     = "ALTER TABLE alert ADD COLUMN minute int; CREATE UNIQUE INDEX a ON alert (key, minute);"
	)
	for _, test := range []struct {
		database, text string
		version        int64
		want           int
	}{
		{"postgres", locking, firstRelease + 1, 1},
		{"postgres", locking, firstRelease, 0}, // before there were users
		{"postgres", concurrent, firstRelease + 1, 0},
		{"postgres", unique, firstRelease + 1, 1},
		{"sqlite", locking, firstRelease + 1, 0},
		{"sqlite", unique, firstRelease + 1, 0},
	} {
		if got := (additions{database: test.database, version: test.version}).faults("x.sql", test.text); len(got) != test.want {
			t.Errorf("%s at version %d: %s: %q, want %d", test.database, test.version, test.text, got, test.want)
		}
	}
}
