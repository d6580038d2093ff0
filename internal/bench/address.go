package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/internal/store"
)

// addressFlag is the flag with the database URL.
const addressFlag = "--database-url"

// within returns a database URL with the search_path set to a schema. It edits the text: reformatting the URL with
// another parser than the driver's could lose parts or print secrets.
func within(database, schema string) (string, error) {
	inside := database + " search_path=" + schema
	if strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://") {
		mark := "?"
		if strings.Contains(database, "?") {
			mark = "&"
		}
		inside = database + mark + "search_path=" + schema
	}
	cfg, err := pgxpool.ParseConfig(inside)
	if err == nil && cfg.ConnConfig.RuntimeParams["search_path"] == schema {
		return inside, nil
	}
	return "", errors.New(addressFlag + " does not allow an appended search_path; write it like postgres://user:password@host:5432/database")
}

// connect connects to a database by its URL.
func connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return store.Connect(ctx, addressFlag, database)
}

// Error codes of a server that refuses to create a schema.
const (
	insufficientPrivilege = "42501"
	readOnly              = "25006"
)

// createSchema creates a schema for the measurement.
func createSchema(ctx context.Context, database, schema string) error {
	conn, err := connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statements have ended already
	_, err = conn.Exec(ctx, `CREATE SCHEMA `+schema)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg) && pg.Code == insufficientPrivilege:
		var grant string
		if err := conn.QueryRow(ctx, `SELECT format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user)`).Scan(&grant); err != nil {
			return err
		}
		return fmt.Errorf("the user of %s lacks the permission to create a schema; run as an owner of the database: %s", addressFlag, grant)
	case errors.As(err, &pg) && pg.Code == readOnly:
		return fmt.Errorf("the database of %s is read-only, and the benchmark writes; give the primary, not a standby", addressFlag)
	}
	return fmt.Errorf("create a schema: %w", err)
}
