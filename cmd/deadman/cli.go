package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"deadman/server"
	"deadman/web"
)

// cli is one run of the program with its input, output and environment.
type cli struct {
	in       io.Reader
	input    io.Reader // what in has, until the context of the run ends: a read that waits for a terminal or a pipe ends then
	out, err io.Writer
	env      []string // as in os.Environ
	now      func() time.Time
	zone     *time.Location // the user's time zone
	palette  colors         // colors of out
	output   format
	url      string // value of --url
}

func newCLI(in io.Reader, out, err io.Writer, env []string) *cli {
	c := &cli{in: in, input: in, out: out, err: err, env: env, now: time.Now, zone: time.Local, output: asText}
	c.palette = colors{on: isTerminal(out) && c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb"}
	return c
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// getenv returns a variable of the program's environment, or an empty string.
func (c *cli) getenv(name string) string {
	for _, pair := range c.env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// run executes the command line and returns the exit code.
func (c *cli) run(ctx context.Context, args []string) int {
	c.input = interruptibleReader{ctx, c.in}
	root := newRootCmd(c)
	root.SetArgs(args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	cmd, err := root.ExecuteContextC(ctx)
	err = nameFlags(cmd, err)
	var silent silentError
	if err == context.Canceled && ctx.Err() != nil { //nolint:errorlint // a wrapped error says what was not completed
		err = errInterrupted
	}
	if err != nil && !errors.As(err, &silent) {
		c.printError(err, args)
	}
	return exitCode(err)
}

// with returns the run function of a command that takes the program.
func (c *cli) with(run func(*cli, *cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return run(c, cmd, args) }
}

// client returns a client for the node of --url, of DEADMAN_URL, of the data folder, or at the default address. It
// refuses to send a token to the default address, because another program may listen there.
func (c *cli) client() (*client, error) {
	base, from := c.url, "--url"
	if base == "" {
		base, from = c.getenv("DEADMAN_URL"), "DEADMAN_URL"
	}
	if base == "" {
		endpoints, file, err := readEndpoints(cmp.Or(c.getenv("DEADMAN_DATA_DIR"), "deadman-data"))
		if err != nil {
			return nil, err
		}
		base, from = endpoints.HTTP, file
	}
	token := c.getenv("DEADMAN_TOKEN")
	if base == "" {
		base, from = "http://"+server.DefaultHTTPAddr, "the default address"
		if token != "" {
			return nil, usage("DEADMAN_TOKEN is set, but no node is configured; set DEADMAN_URL=%s if the token is for that node, or %s", base, nodeHint)
		}
	}
	return newClient(base, from, token)
}

// write prints the result of a request: its JSON as received with -o json, else the text that the function prints.
func (c *cli) write(raw []byte, text func() error) error {
	if c.output == asJSON {
		return writeJSON(c.out, raw)
	}
	return text()
}

// report prints the result of a command: the value with -o json, else the text.
func (c *cli) report(v any, format string, args ...any) error {
	if c.output == asJSON {
		return writeValue(c.out, v)
	}
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}

// confirm asks for confirmation if the input is a terminal. Scripts are not asked.
func (c *cli) confirm(yes bool, question string) error {
	if yes || !isTerminal(c.in) {
		return nil
	}
	if _, err := fmt.Fprintf(c.err, "%s [y/N] ", sanitize(question)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		fmt.Fprintln(c.err)
	}
	fmt.Fprintln(c.err, "cancelled; no changes made")
	return errDeclined
}

// interruptibleReader reads until its context ends. A read that waits then continues in the background, and its data is lost.
type interruptibleReader struct {
	ctx  context.Context //nolint:containedctx // io.Reader takes none
	from io.Reader
}

// Read implements io.Reader.
func (r interruptibleReader) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	own, done := make([]byte, len(p)), make(chan result, 1) // a read that is left behind must not write to p
	go func() {
		n, err := r.from.Read(own)
		done <- result{n, err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case got := <-done:
		return copy(p, own[:got.n]), got.err
	}
}

// eventData returns the body given as an argument, as a file, or on standard input.
func (c *cli) eventData(args []string) ([]byte, error) {
	switch {
	case len(args) == 0 && isTerminal(c.in):
		return nil, usage("DATA is missing; give JSON, @FILE, or - for standard input")
	case len(args) == 0 || args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(c.input, web.MaxEventBytes+1))
		return data, errors.Join(err, tooLarge(data))
	case strings.HasPrefix(args[0], "@"):
		data, err := readSmall(args[0][1:], web.MaxEventBytes)
		if errors.Is(err, os.ErrNotExist) {
			return nil, usageError{err}
		}
		return data, err
	}
	return []byte(args[0]), nil
}

// jsonFlag returns the JSON of a flag, given as a value, as a file, or on standard input. It returns nil for an empty
// flag.
func (c *cli) jsonFlag(flag, value string) (json.RawMessage, error) {
	if value == "" {
		return nil, nil
	}
	data, err := c.eventData([]string{value})
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, usage(`--%s: %s is not valid JSON; give JSON such as '{"id": "1"}', or @FILE`, flag, clip(value, 60))
	}
	return data, nil
}

func tooLarge(data []byte) error {
	if len(data) > web.MaxEventBytes {
		return fmt.Errorf("the event exceeds the limit of %d KiB", web.MaxEventBytes>>10)
	}
	return nil
}

// relative formats a time relative to now, such as "5 minutes ago".
func (c *cli) relative(t time.Time) string { return web.Relative(t, c.now()) }

// exact formats a time in the user's zone.
func (c *cli) exact(t time.Time) string { return t.In(c.zone).Format("2006-01-02 15:04:05 MST") }

// instant parses a time in a human format: complete as in 2026-01-31T15:04:05Z, a date with or without a time or a
// time of today in the user's zone, or a span from base as in +3h or -7d.
func (c *cli) instant(s string, base time.Time) (time.Time, error) {
	if sign := sign(s); sign != 0 {
		d, err := document.ParseDuration(s[1:])
		return base.Add(sign * time.Duration(d)), err
	}
	if s == "now" {
		return c.now(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, c.zone); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			year, month, day := c.now().In(c.zone).Date()
			return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), 0, c.zone), nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid time %q; use 2026-01-31T15:04:05Z, \"2026-01-31 15:04\", 15:04, +3h or -3h", s)
}

// instantFlag parses the optional time of a flag.
func (c *cli) instantFlag(flag, s string, base time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := c.instant(s, base)
	if err != nil {
		return t, usage("--%s: %w", flag, err)
	}
	return t, nil
}

// past parses a time that may be a span back from now, with or without a minus sign.
func (c *cli) past(s string) (time.Time, error) {
	if d, err := document.ParseDuration(strings.TrimPrefix(s, "-")); err == nil {
		return c.now().Add(-time.Duration(d)), nil
	}
	return c.instant(s, c.now())
}

// sinceFlag parses the optional beginning of a range, as past does.
func (c *cli) sinceFlag(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := c.past(s)
	if err != nil {
		return t, usage("--%s: %w", flag, err)
	}
	return t, nil
}

// ago parses the time of a required flag, in the past. A span counts back from now.
func (c *cli) ago(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, usage("--%s is required; give a duration such as 24h, or a time such as 2026-01-31T15:04:05Z", flag)
	}
	at, err := c.past(s)
	switch {
	case err != nil:
		return at, usage("--%s: invalid time %q; use a duration back from now, such as 7d, or a time, such as 2026-01-31 or 2026-01-31T15:04:05Z", flag, s)
	case at.After(c.now()):
		return at, usage("--%s %q is %s, in the future; use a duration back from now, such as 7d, or a time in the past, such as 2026-01-31", flag, s, c.exact(at))
	}
	return at.UTC(), nil
}
