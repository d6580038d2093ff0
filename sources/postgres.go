package sources

import (
	"errors"

	"deadman/checks/lookup"
)

func openPostgres(string, Postgres) (lookup.Client, error) { return nil, errors.New("to be written") }
