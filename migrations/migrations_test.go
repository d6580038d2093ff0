package migrations_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"deadman/migrations"
)

// addsOnly is the first version whose migrations only add. Those before it were never released.
const addsOnly = 17

var comment = regexp.MustCompile(`(?m)--.*$`)

// takesAway are the statements that break a node of the version before, which runs beside.
var takesAway = []struct {
	what *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`(?i)\bDROP\s+(TABLE|COLUMN|VIEW|SEQUENCE|SCHEMA|TYPE|DEFAULT)\b`), "takes away what a node of the version before may use"},
	{regexp.MustCompile(`(?i)\bRENAME\b`), "takes away a name that a node of the version before uses"},
	{regexp.MustCompile(`(?i)\bALTER\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE\b`), "changes a type that a node of the version before reads and writes"},
	{regexp.MustCompile(`(?i)\bSET\s+NOT\s+NULL\b`), "refuses what a node of the version before may write"},
	{regexp.MustCompile(`(?i)\bADD\s+(CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN)\b`), "may refuse what a node of the version before writes"},
	{regexp.MustCompile(`(?i)\b(DELETE\s+FROM|TRUNCATE)\b`), "takes away rows that a node of the version before may use"},
}

var (
	addsColumn = regexp.MustCompile(`(?is)\bADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?\w+\s+[^,;]*`)
	notNull    = regexp.MustCompile(`(?i)\bNOT\s+NULL\b`)
	hasDefault = regexp.MustCompile(`(?i)\bDEFAULT\b`)
)

// faults are why a node of the version before could not run beside a migration.
func faults(text string) (all []string) {
	text = comment.ReplaceAllString(text, "")
	for _, bad := range takesAway {
		if found := bad.what.FindString(text); found != "" {
			all = append(all, found+": "+bad.why)
		}
	}
	for _, found := range addsColumn.FindAllString(text, -1) {
		if notNull.MatchString(found) && !hasDefault.MatchString(found) {
			all = append(all, strings.TrimSpace(found)+": NOT NULL without DEFAULT refuses the rows of a node of the version before")
		}
	}
	return all
}

// Nodes of two versions run side by side while they are replaced, so that a migration may only add.
func TestMigrationsOnlyAdd(t *testing.T) {
	for folder, files := range map[string]fs.FS{"postgres": migrations.Postgres, "sqlite": migrations.SQLite} {
		names, err := fs.Glob(files, folder+"/*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d migrations, %v", folder, len(names), err)
		}
		for _, name := range names {
			version, err := goose.NumericComponent(path.Base(name))
			if err != nil {
				t.Fatal(err)
			}
			text, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			if version < addsOnly {
				continue
			}
			for _, fault := range faults(string(text)) {
				t.Errorf("%s: %s; split it over two versions (docs/operations/upgrading.md)", name, fault)
			}
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"DROP TABLE alert;":                                            true,
		"ALTER TABLE alert DROP COLUMN detail;":                        true,
		"ALTER TABLE alert RENAME TO alerts;":                          true,
		"ALTER TABLE a RENAME COLUMN b TO c;":                          true,
		"ALTER TABLE a ALTER COLUMN b TYPE bigint;":                    true,
		"ALTER TABLE a ALTER COLUMN b SET NOT NULL;":                   true,
		"ALTER TABLE a ADD COLUMN b int NOT NULL;":                     true,
		"ALTER TABLE a ADD COLUMN b int, ADD COLUMN c int NOT NULL;":   true,
		"ALTER TABLE a ADD CONSTRAINT b CHECK (c > 0);":                true,
		"ALTER TABLE a ADD COLUMN b int NOT NULL DEFAULT 0;":           false,
		"ALTER TABLE a ADD COLUMN b int; -- DROP TABLE a, some day":    false,
		"CREATE TABLE a (b int NOT NULL); CREATE INDEX c ON a (b);":    false,
		"ALTER TABLE history ALTER COLUMN check_slowest DROP NOT NULL": false,
	} {
		if got := faults(text); (len(got) > 0) != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
