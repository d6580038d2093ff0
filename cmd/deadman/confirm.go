package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// errDeclined ends a command after a question was answered with no. Nothing was changed.
var errDeclined = silentError{exitFailure}

// addYes adds the flag that skips the confirmation.
func addYes(flags *pflag.FlagSet) *bool {
	return flags.BoolP("yes", "y", false, "do not ask")
}

// confirm asks for confirmation if the input is a terminal. Scripts are not asked.
func (p *cli) confirm(yes bool, question string) error {
	if yes || !isTerminal(p.in) {
		return nil
	}
	if _, err := fmt.Fprintf(p.err, "%s [y/N] ", sanitize(question)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		fmt.Fprintln(p.err)
	}
	fmt.Fprintln(p.err, "nothing was changed")
	return errDeclined
}
