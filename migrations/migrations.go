// Package migrations holds the schema, one folder a database. Within a minor version a
// migration only adds: a node works with the newest schema it knows and with the next one.
package migrations

import "embed"

// Postgres and SQLite hold goose migrations in the folders "postgres" and "sqlite".
var (
	//go:embed postgres/*.sql
	Postgres embed.FS
	//go:embed sqlite/*.sql
	SQLite embed.FS
)
