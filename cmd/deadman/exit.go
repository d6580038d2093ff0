package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"deadman/internal/bus"
	"deadman/web"
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

// errorProblem is an error as problem details (RFC 9457): the node's, or those of the program.
type errorProblem struct {
	Type     string              `json:"type,omitempty"` // of the node's
	Title    string              `json:"title"`
	Status   int                 `json:"status,omitempty"` // of the node's answer
	Detail   string              `json:"detail"`
	Errors   []web.ProblemDetail `json:"errors,omitempty"`
	ExitCode int                 `json:"exit_code"`
}

// printError prints the error that ends a command: its text, or JSON with -o json. The flag counts even if the command line
// is wrong before it.
func (c *cli) printError(err error, args []string) {
	if c.output != asJSON && !wantsJSON(args) {
		fmt.Fprintf(c.err, "deadman: %s\n", plainLines(err.Error()))
		return
	}
	p := errorProblem{Title: "Failure", Detail: err.Error(), ExitCode: exitCode(err)}
	if p.ExitCode == exitUsage {
		p.Title = "Usage"
	}
	var r refusal
	var misuse usageError
	if errors.As(err, &r) || errors.As(err, &misuse) && errors.As(misuse.error, &r) {
		p.Type, p.Title, p.Status, p.Errors = r.Type, r.Title, r.Status, r.Errors
		p.Detail = strings.TrimPrefix(p.Detail, r.Title+": ")
	}
	_ = writeValue(c.err, p) // there is no other place to report it
}

// wantsJSON reports whether a command line asks for JSON.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, value, is := strings.Cut(arg, "="); is && (name == "-o" || name == "--output") && value == string(asJSON) {
			return true
		}
		if arg == "-o"+string(asJSON) || (arg == "-o" || arg == "--output") && i+1 < len(args) && args[i+1] == string(asJSON) {
			return true
		}
	}
	return false
}

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
