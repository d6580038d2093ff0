package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"deadman/web"
)

// pingsOptions is the parsed flags of rule pings.
type pingsOptions struct {
	key    string
	all    bool
	id     string
	rotate bool
	remove bool
	log    bool
}

func newRulePingsCmd(io *cli) *cobra.Command {
	var options pingsOptions
	cmd := &cobra.Command{
		Use: "pings RULE", Short: "Manage the ping URLs of a rule and show its ping log",
		Long: "Lists the ping URLs of a rule. With --key or --ping-key, prints that URL; if it does not exist, it is created.\n" +
			"A ping URL is a secret: every client that knows it can send pings.",
		Example: `  deadman rule pings backup --key nightly
  curl -fsS -m 10 --retry 5 "$(deadman rule pings backup --key nightly)"
  deadman rule pings backup --key nightly --uuid 5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278
  deadman rule pings backup --log`,
		Args: exactly("RULE"), ValidArgsFunction: completeRule(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := options.check(); err != nil {
				return err
			}
			return runPings(cmd.Context(), io, args[0], options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.key, "key", "", "URL of this key")
	flags.BoolVar(&options.all, "ping-key", false, "URL of all keys of the rule, to be followed by /<key>")
	textFlagVar(flags, &options.id, "uuid", "id", "", "use this UUID or ping key, for existing clients")
	flags.BoolVar(&options.rotate, "rotate", false, "replace the URL with a new one")
	flags.BoolVar(&options.remove, "remove", false, "delete the URL")
	flags.BoolVar(&options.log, "log", false, "show the last pings, newest first; --key filters by key")
	return cmd
}

// check rejects flags that exclude each other.
func (w pingsOptions) check() error {
	one := w.key != "" || w.all
	switch {
	case !utf8.ValidString(w.key):
		return usage("--key %q is not valid UTF-8", w.key)
	case w.key != "" && w.all:
		return usage("--key and --ping-key are mutually exclusive")
	case !one && (w.id != "" || w.rotate || w.remove):
		return usage("--uuid, --rotate and --remove require --key or --ping-key")
	case w.remove && (w.id != "" || w.rotate):
		return usage("--remove cannot be combined with --uuid or --rotate")
	case w.log && (w.all || w.id != "" || w.rotate || w.remove):
		return usage("--log can be combined with --key only")
	}
	return nil
}

func runPings(ctx context.Context, io *cli, rule string, options pingsOptions) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	path := pingsPath(rule)
	switch {
	case options.log:
		return printPingLog(ctx, io, path+"/log", options.key)
	case options.remove:
		return removePing(ctx, io, c, path, options)
	case options.key != "" || options.all:
		return makePing(ctx, io, c, rule, options)
	}
	return listPings(ctx, io, c, rule)
}

func pingsPath(rule string) string { return rulePath(rule) + "/pings" }

// makePing creates or reads a ping URL and prints it on its own line, for scripts.
func makePing(ctx context.Context, io *cli, c *client, rule string, options pingsOptions) error {
	body := map[string]any{"key": options.key, "id": options.id, "rotate": options.rotate}
	address, _, err := call[web.PingAddress](ctx, c, http.MethodPost, pingsPath(rule), nil, body)
	if err != nil {
		return err
	}
	address.URL = absoluteURL(c, address.URL)
	if io.output == asJSON {
		return writeValue(io.out, address)
	}
	if _, err = fmt.Fprintln(io.out, sanitize(displayURL(address))); err != nil {
		return err
	}
	return warnUndeclared(ctx, io, c, rule, []web.PingAddress{address})
}

// displayURL returns a ping URL with a placeholder for the key if the URL is for all keys.
func displayURL(a web.PingAddress) string {
	if a.Key == "" {
		return a.URL + "/<key>"
	}
	return a.URL
}

// warnUndeclared warns about URLs whose keys are not among the rule's declared keys. Such a key may be misspelled, or
// removed from the rule.
func warnUndeclared(ctx context.Context, io *cli, c *client, rule string, all []web.PingAddress) error {
	d, err := getRule(ctx, c, rule)
	if err != nil || d.Trigger.Heartbeat == nil || len(d.Trigger.Heartbeat.Keys) == 0 {
		return err
	}
	var others []string
	for _, a := range all {
		if a.Key != "" && !slices.Contains(d.Trigger.Heartbeat.Keys, a.Key) {
			others = append(others, sanitize(a.Key))
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(io.err, "warning: not among the keys of rule %s: %s; pings to these URLs still create jobs; delete a URL with --remove\n",
			sanitize(rule), strings.Join(others, ", "))
	}
	return nil
}

// absoluteURL completes a URL that the node returned as a path.
func absoluteURL(c *client, address string) string {
	if strings.HasPrefix(address, "/") {
		return c.base + address
	}
	return address
}

func removePing(ctx context.Context, io *cli, c *client, path string, options pingsOptions) error {
	if _, err := c.request(ctx, http.MethodDelete, path, url.Values{"key": {options.key}}, nil, nil); err != nil {
		return err
	}
	return io.report(map[string]string{"key": options.key, "outcome": "removed"}, "removed: pings to this URL are rejected\n")
}

// maxURLRoom is the width that a column of URLs keeps: more than any URL has.
const maxURLRoom = 4096

func listPings(ctx context.Context, io *cli, c *client, rule string) error {
	all, err := getAllPages[web.PingAddress](ctx, c, pingsPath(rule), url.Values{})
	if err != nil {
		return err
	}
	for i := range all {
		all[i].URL = absoluteURL(c, all[i].URL)
	}
	switch {
	case io.output == asJSON:
		return writeValue(io.out, web.Page[web.PingAddress]{Items: all})
	case len(all) == 0:
		_, err := fmt.Fprintln(io.out, "no ping URLs; create one for a key with --key KEY, or for all keys of the rule with --ping-key")
		return err
	}
	t := newTable(io.out, io.palette, "key", "url", "created", "by")
	for _, a := range all {
		key := cellOf(a.Key)
		if a.Key == "" {
			key = dimCell("any")
		}
		t.row(key, cellOf(displayURL(a)), cellOf(io.relative(a.CreatedAt)), cellOf(a.CreatedBy))
	}
	t.room = maxURLRoom // URLs are for copying: columns are left out, and none is clipped
	left := t.drop(terminalWidth(io.out), []string{"by", "created"})
	if err := t.end(); err != nil {
		return err
	}
	printLeftOut(io, left)
	return warnUndeclared(ctx, io, c, rule, all)
}

// agentShown limits the shown user agent, in characters, to leave space for the body.
const agentShown = 32

func printPingLog(ctx context.Context, io *cli, path, key string) error {
	query := url.Values{"limit": {"100"}}
	if key != "" {
		query.Set("key", key)
	}
	return listing[web.PingEntry]{
		none:   "no pings in the log; a ping is logged within a second or two",
		drop:   []string{"time", "client", "run", "duration"},
		header: []string{"when", "time", "key", "kind", "run", "duration", "client", "body"},
		row: func(io *cli, e web.PingEntry) []cell {
			return []cell{
				cellOf(io.relative(e.At)), cellOf(io.exact(e.At)), cellOf(e.Key), pingKindCell(e), cellOf(e.Run), durationCell(e), cellOf(clip(e.UserAgent, agentShown)), cellOf(e.Body),
			}
		},
	}.run(ctx, io, path, query)
}

// pingKindCell formats the kind and exit status of a ping.
func pingKindCell(e web.PingEntry) cell {
	text := e.Kind
	if e.Exit != nil {
		text = fmt.Sprintf("%s (exit %d)", e.Kind, *e.Exit)
	}
	switch e.Kind {
	case "fail":
		return colouredCell(red, text)
	case "success":
		return colouredCell(green, text)
	}
	return cellOf(text)
}

func durationCell(e web.PingEntry) cell {
	if e.DurationMS == 0 {
		return cellOf("")
	}
	return cellOf(time.Duration(e.DurationMS * float64(time.Millisecond)).Round(time.Millisecond).String())
}
