package sources

import (
	"errors"

	"deadman/checks/lookup"
)

func openSQLite(string, SQLite) (lookup.Client, error) { return nil, errors.New("to be written") }
