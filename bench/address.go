package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/store"
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

// parsed is what an address says. An error is the store's, which never says the password.
func parsed(ctx context.Context, database string) (*pgx.ConnConfig, error) {
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		_, err = store.Open(ctx, store.Options{DatabaseURL: database, URLName: addressFlag}) // it doesn't come to open anything
		return nil, err
	}
	return cfg.ConnConfig, nil
}

// nowhere is a schema that no database has.
const nowhere = schemaPrefix + "nowhere"

// connect connects to a database as it is given. Where that fails, the store says why, and what to do: it is
// asked for a schema that isn't there, so that it changes nothing in a database that comes up meanwhile.
func connect(ctx context.Context, database string) (*pgx.Conn, error) {
	cfg, err := parsed(ctx, database)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		return conn, nil
	}
	inside, err := within(database, nowhere)
	if err != nil {
		return nil, err
	}
	_, err = store.Open(ctx, store.Options{DatabaseURL: inside, URLName: addressFlag})
	return nil, err
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
