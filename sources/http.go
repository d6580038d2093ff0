package sources

import (
	"errors"

	"deadman/checks/lookup"
)

func openHTTP(string, HTTP) (lookup.Client, error) { return nil, errors.New("to be written") }
