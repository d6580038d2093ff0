package main

import (
	"errors"
	"fmt"
)

// The exit codes.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2 // the command line or a setting is wrong
	exitCondition = 3 // a condition does not hold, or lint found something
)

// usageError is a mistake of whoever called.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silentError ends the program with a code; what is to be said was said.
type silentError struct{ code int }

func (e silentError) Error() string { return fmt.Sprintf("exit %d", e.code) }

func exitCode(err error) int {
	var said silentError
	var misuse usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &said):
		return said.code
	case errors.As(err, &misuse):
		return exitUsage
	}
	return exitFailure
}
