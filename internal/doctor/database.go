package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"deadman/internal/store"
)

// database checks the database and its schema.
func database(ctx context.Context, i *inspection) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	schema, err := store.ReadSchema(ctx, store.Options{DatabaseURL: i.DatabaseURL, DataDir: i.DataDir, Shards: i.Shards, Log: i.Log})
	switch {
	case errors.Is(err, store.ErrLocked):
		i.problem("database", Unknown, "a node works on "+filepath.Join(i.DataDir, store.DatabaseFile)+", which one process opens at a time",
			"deadman status shows the conditions of the node; stop the node to check the file")
		i.unread = true
		i.problem("rules", Unknown, "the rules in the database of the running node were not checked, only those in files",
			"deadman rule list shows them; stop the node, or give the rules as files with DEADMAN_RULES")
		return
	case errors.Is(err, store.ErrUnavailable):
		i.problem("database", Failed, err.Error(), "correct DEADMAN_DATABASE_URL, or start the server; a node waits for it")
		return
	case err != nil:
		i.problem("database", Failed, err.Error(), "correct the database or DEADMAN_DATABASE_URL; a node does not start with it")
	default:
		schemaOf(i, schema)
		i.unread = i.DatabaseURL == "" && schema.Applied > 0
		if i.unread && i.NATSURL != "" { // the embedded broker has no other streams and permissions than the node's
			i.problem("rules", Unknown, "the rules in the embedded database were not checked, only those in files: their streams and permissions are not known",
				"start the node: deadman rule list and deadman status show its rules and conditions, or give the rules as files with DEADMAN_RULES")
		}
	}
	if i.DatabaseURL != "" {
		postgres(ctx, i, schema, err == nil)
	}
}

// firstStart is the state of a database without a schema that a node may create, and migrateApart the remedy for pending
// migrations.
const (
	firstStart   = "none yet; the first start of a node creates it"
	migrateApart = "deadman migrate applies them apart from the start"
)

func pendingMigrations(s store.Schema) string {
	return fmt.Sprintf("%d migrations are pending; the next start of a node applies them", len(s.Pending))
}

// schemaOf checks that a node of this program works with the schema, and that live nodes do.
func schemaOf(i *inspection, s store.Schema) {
	behind := s.Behind()
	switch {
	case len(s.Pending) > 0 && len(behind) == 0 && i.DatabaseURL != "": // see tableInspection.migrate
	case s.Applied == 0:
		i.ok("database schema", firstStart)
	case len(s.Pending) > 0 && len(behind) > 0:
		i.problem("database schema", Failed, fmt.Sprintf("%d migrations are pending, and %d live nodes do not support them", len(s.Pending), len(behind)),
			"stop or replace the nodes that deadman migrate --check lists")
	case len(s.Pending) > 0:
		i.problem("database schema", Warning, pendingMigrations(s), migrateApart)
	default:
		i.ok("database schema", "version %d, %d live nodes", s.Applied, len(s.Nodes))
	}
}
