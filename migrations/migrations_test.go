package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"deadman/migrations"
)

const (
	// addsOnly is the first version whose migrations only add.
	addsOnly = 17
	// firstRelease is the newest version of release 0.1.0: later migrations run on the databases of users.
	firstRelease = 29
	// released is the newest version of the last release. Databases of users have it: its files stay as they are.
	released = 29
)

// folders are the migrations of each database.
var folders = map[string]fs.FS{"postgres": migrations.Postgres, "sqlite": migrations.SQLite}

// The reasons of a refusal.
const (
	takesAway = "takes away what a node of the version before uses"
	renames   = "takes away a name that a node of the version before uses"
	narrows   = "refuses what a node of the version before may write"
	retypes   = "changes a type that a node of the version before reads and writes, and rewrites the table under a lock"
	blocks    = "locks the table against writes while the index is built; write CREATE INDEX CONCURRENTLY in a migration of its own with \"-- +goose NO TRANSACTION\""
	downgrade = "is a downgrade, but migrations are never reverted: leave it out"
	unknown   = "is not among the statements that this test knows to add only; if it does, teach the test"
)

// remedy ends each refusal.
const remedy = "expand now, contract one release later (docs/operations/upgrading.md#rules-for-migrations)"

// additions checks that a migration only adds.
type additions struct {
	database string
	version  int64
	releases []string // their numbers, from CHANGELOG.md
	created  []string // tables that the migration creates
	columns  []string // columns that the migration adds
	indexes  []string // indexes that the migration creates
}

// faults returns why a node of the version before could not run beside the migration or after it, one text for each
// statement, with file and line.
func (a additions) faults(file, text string) (all []string) {
	statements := split(text)
	for _, s := range statements {
		a.note(s.words)
	}
	for _, s := range statements {
		why := a.fault(s)
		switch {
		case why == "":
		case s.unused == "":
			all = append(all, fmt.Sprintf("%s:%d: %s: %s; %s", file, s.line, s, why, remedy))
		case !slices.Contains(a.releases, s.unused):
			all = append(all, fmt.Sprintf("%s:%d: %s: unused since %s, which is no release in CHANGELOG.md; %s", file, s.line, s, s.unused, remedy))
		}
	}
	return all
}

// note remembers the tables, columns and indexes that a statement adds.
func (a *additions) note(words []string) {
	switch {
	case begins(words, "CREATE", "TABLE"):
		table, _ := name(skip(words[2:], "IF", "NOT", "EXISTS"))
		a.created = append(a.created, table)
	case begins(words, "CREATE") && begins(skip(words[1:], "UNIQUE"), "INDEX"):
		index, _ := name(skip(words[1:], "UNIQUE", "INDEX", "CONCURRENTLY", "IF", "NOT", "EXISTS"))
		a.indexes = append(a.indexes, index)
	case begins(words, "ALTER", "TABLE"):
		_, actions := name(skip(words[2:], "IF", "EXISTS", "ONLY"))
		for _, action := range items(actions) {
			if begins(action, "ADD") {
				column, _ := name(skip(action[1:], "COLUMN", "IF", "NOT", "EXISTS"))
				a.columns = append(a.columns, column)
			}
		}
	}
}

// fault returns why a statement is refused, or an empty text.
func (a additions) fault(s statement) string {
	words := s.words
	switch words[0] {
	case "INSERT", "UPDATE", "COMMENT":
		return ""
	case "DELETE", "TRUNCATE":
		return "takes away rows that a node of the version before may use"
	case "DROP":
		return a.faultOfDrop(words[1:])
	case "+GOOSE":
		return downgrade
	case "CREATE":
		kind := skip(words[1:], "UNIQUE")
		switch {
		case begins(kind, "INDEX"):
			return a.faultOfIndex(kind[1:], words[1] == "UNIQUE")
		case begins(kind, "TABLE"):
			return a.faultOfTable(kind[1:])
		}
	case "ALTER":
		if begins(words[1:], "TABLE") {
			_, actions := name(skip(words[2:], "IF", "EXISTS", "ONLY"))
			for _, action := range items(actions) {
				if why := a.faultOfAction(action); why != "" {
					return why
				}
			}
			return ""
		}
		if slices.Contains(words, "RENAME") {
			return renames
		}
	}
	return unknown
}

// faultOfDrop allows to drop an index that the migration builds anew, because a build that failed leaves an invalid one.
func (a additions) faultOfDrop(words []string) string {
	index, _ := name(skip(words, "INDEX", "CONCURRENTLY", "IF", "EXISTS"))
	if words[0] == "INDEX" && slices.Contains(a.indexes, index) {
		return ""
	}
	return takesAway
}

// faultOfIndex refuses an index that a node of the version before could violate, and one whose build would stop the nodes.
func (a additions) faultOfIndex(words []string, unique bool) string {
	concurrent := words[0] == "CONCURRENTLY"
	_, words = name(skip(words, "CONCURRENTLY", "IF", "NOT", "EXISTS"))
	table, words := name(skip(words, "ON", "ONLY"))
	if slices.Contains(a.created, table) {
		return ""
	}
	if unique && !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(a.columns, strings.ToUpper(strings.Trim(w, `"`))) }) {
		return narrows
	}
	if a.database == "postgres" && a.version > firstRelease && !concurrent {
		return blocks
	}
	return ""
}

// faultOfTable refuses a table whose rows keep rows of older tables from being deleted.
func (a additions) faultOfTable(words []string) string {
	for i, w := range words {
		if w == "REFERENCES" {
			if table, _ := name(words[i+1:]); !slices.Contains(a.created, table) {
				return "refuses deletions by a node of the version before"
			}
		}
	}
	return ""
}

// faultOfAction returns why a part of ALTER TABLE is refused.
func (a additions) faultOfAction(words []string) string {
	switch {
	case begins(words, "DROP"):
		return takesAway
	case begins(words, "RENAME"):
		return renames
	case begins(words, "ADD"):
		return faultOfColumn(skip(words[1:], "COLUMN", "IF", "NOT", "EXISTS"))
	case begins(words, "ALTER"):
		_, change := name(skip(words[1:], "COLUMN"))
		switch {
		case begins(change, "DROP", "NOT", "NULL"), begins(change, "SET", "DEFAULT"):
			return ""
		case begins(change, "SET", "NOT", "NULL"):
			return narrows
		case begins(change, "TYPE"), begins(change, "SET", "DATA", "TYPE"):
			return retypes
		case begins(change, "DROP"):
			return takesAway
		}
	}
	return unknown
}

// faultOfColumn returns why an added column or constraint is refused.
func faultOfColumn(words []string) string {
	constraints := []string{"CONSTRAINT", "CHECK", "UNIQUE", "PRIMARY", "FOREIGN", "EXCLUDE"}
	if len(words) > 0 && slices.Contains(constraints, words[0]) {
		return narrows
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return len(w) > 1 && strings.HasSuffix(w, "'") })
	text := strings.Join(words, " ") + " "
	defaults := strings.Contains(text, " DEFAULT ") && !strings.Contains(text, " DEFAULT NULL ")
	switch {
	case strings.Contains(text, " NOT NULL ") && !defaults:
		return "refuses the rows of a node of the version before: NOT NULL without DEFAULT"
	case strings.Contains(text, " PRIMARY "), strings.Contains(text, " UNIQUE ") && defaults:
		return narrows
	case strings.Contains(text, " REFERENCES "):
		return "refuses deletions by a node of the version before"
	}
	return ""
}

// releases returns the numbers of the releases in CHANGELOG.md.
func releases(t *testing.T) (numbers []string) {
	t.Helper()
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindAllStringSubmatch(string(text), -1) {
		numbers = append(numbers, found[1])
	}
	return numbers
}

// walk calls a function with each migration of each database, in order.
func walk(t *testing.T, each func(database, file string, version int64, text string)) {
	t.Helper()
	for database, files := range folders {
		names, err := fs.Glob(files, database+"/*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d migrations, %v", database, len(names), err)
		}
		for _, file := range names {
			version, err := goose.NumericComponent(path.Base(file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := fs.ReadFile(files, file)
			if err != nil {
				t.Fatal(err)
			}
			each(database, file, version, string(text))
		}
	}
}

// TestMigrationsOnlyAdd checks that nodes of the version before run beside each migration, and after it.
func TestMigrationsOnlyAdd(t *testing.T) {
	known := releases(t)
	walk(t, func(database, file string, version int64, text string) {
		if version < addsOnly {
			return
		}
		for _, fault := range (additions{database: database, version: version, releases: known}).faults("migrations/"+file, text) {
			t.Error(fault)
		}
	})
}

// TestReleasedMigrationsAreUnchanged checks that a new database gets the schema that databases of the last release have.
func TestReleasedMigrationsAreUnchanged(t *testing.T) {
	sums, files := map[string][]byte{}, map[string]int{}
	walk(t, func(database, file string, version int64, text string) {
		if version <= released {
			sum := sha256.Sum256([]byte(string(sums[database]) + path.Base(file) + "\n" + text))
			sums[database] = sum[:]
			files[database]++
		}
	})
	for database, want := range map[string]string{
		"postgres": "f4624de20a69cacc",
		"sqlite":   "05a199dc8edb9337",
	} {
		if got := fmt.Sprintf("%x", sums[database][:8]); got != want {
			t.Errorf("migrations/%s: the %d files up to version %d have the sum %s, and those of the last release have %s: a database that has "+
				"applied a file never sees its change; restore the file, and write a new migration", database, files[database], released, got, want)
		}
	}
}
