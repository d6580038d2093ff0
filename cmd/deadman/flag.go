package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// typedText is a text flag whose type is named in the help.
type typedText struct {
	text *string
	kind string
}

// textFlag adds a text flag and returns its value. Kind is the type shown in the help, such as duration.
func textFlag(flags *pflag.FlagSet, name, kind, preset, usage string) *string {
	text := new(string)
	textFlagVar(flags, text, name, kind, preset, usage)
	return text
}

// textFlagVar adds a text flag and stores its value in text.
func textFlagVar(flags *pflag.FlagSet, text *string, name, kind, preset, usage string) {
	*text = preset
	flags.Var(typedText{text, kind}, name, usage)
}

// Set implements pflag.Value.
func (t typedText) Set(s string) error {
	*t.text = s
	return nil
}

// String implements pflag.Value.
func (t typedText) String() string {
	if t.text == nil {
		return "" // pflag compares with a zero value
	}
	return *t.text
}

// Type implements pflag.Value.
func (t typedText) Type() string { return t.kind }

func sign(s string) time.Duration {
	switch {
	case strings.HasPrefix(s, "+"):
		return 1
	case strings.HasPrefix(s, "-"):
		return -1
	}
	return 0
}

// flagKinds are the values that the types of pflag take.
var flagKinds = map[string]string{"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false"}

// flagError returns the error of a command line that cannot be parsed.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		if values := missing.GetFlag().Annotations[validValues]; values != nil {
			return usage("%w, one of %s; for example --%s %s", err, strings.Join(values, ", "), missing.GetFlag().Name, values[0])
		}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) || flagKinds[invalid.GetFlag().Value.Type()] == "" {
		return usage("%w; see %s --help", err, cmd.CommandPath())
	}
	wrong := "not " + flagKinds[invalid.GetFlag().Value.Type()]
	if errors.Is(err, strconv.ErrRange) {
		wrong = "out of range"
	}
	return usage("--%s: %q is %s; see %s --help", invalid.GetFlag().Name, clip(invalid.GetValue(), 60), wrong, cmd.CommandPath())
}

// checkSpan validates the optional span of a flag: it must be over 0.
func checkSpan(flag, s string) error {
	if s == "" {
		return nil
	}
	d, err := document.ParseDuration(s)
	if err != nil {
		return usage("--%s: %w", flag, err)
	}
	if d <= 0 {
		return usage("--%s is %s; it must be a positive duration, such as 2h or 90d", flag, s)
	}
	return nil
}
