package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"deadman/internal/bus"
)

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2 // the command line or a setting is invalid
	exitCondition = 3 // a condition does not hold, or lint has findings
)

// usageError is an error of the caller.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silentError ends the program with an exit code and without a message.
type silentError struct{ code int }

func (e silentError) Error() string { return fmt.Sprintf("exit %d", e.code) }

func exitCode(err error) int {
	var silent silentError
	var misuse usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return silent.code
	case errors.As(err, &misuse), errors.Is(err, bus.ErrURL):
		return exitUsage
	}
	return exitFailure
}

// errDeclined ends a command after a question was answered with no. Nothing was changed.
var errDeclined = silentError{exitFailure}

// errInterrupted ends a command after a signal.
var errInterrupted = errors.New("interrupted")

// addYes adds the flag that skips the confirmation.
func addYes(flags *pflag.FlagSet) *bool {
	return flags.BoolP("yes", "y", false, "skip the confirmation")
}
