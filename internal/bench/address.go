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

// addressFlag is what people give the address with.
const addressFlag = "--database-url"

// within is an address whose tables are those of a schema. It is put together as text: of what another
// parser than the driver's makes of an address, parts could be lost, or said to everybody.
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
	return "", errors.New(addressFlag + " cannot be given a search_path at its end; it looks best like postgres://user:password@host:5432/database")
}

// connect connects to a database as it is given.
func connect(ctx context.Context, database string) (*pgx.Conn, error) {
	cfg, err := store.Address(addressFlag, database)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, store.Unreachable(addressFlag, err)
	}
	return conn, nil
}

// The codes of a server that doesn't let a schema be made.
const (
	insufficientPrivilege = "42501"
	readOnly              = "25006"
)

// createSchema makes a schema to measure in.
func createSchema(ctx context.Context, database, schema string) error {
	conn, err := connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statements have run, or failed
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
		return fmt.Errorf("the user of %s may not make a schema to measure in; have an owner of the database run: %s", addressFlag, grant)
	case errors.As(err, &pg) && pg.Code == readOnly:
		return fmt.Errorf("the database of %s can only be read, and what is measured is written; give the primary, not a standby", addressFlag)
	}
	return fmt.Errorf("make a schema to measure in: %w", err)
}
