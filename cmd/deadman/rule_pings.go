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

// pingsWish is the parsed flags of rule pings.
type pingsWish struct {
	key    string
	all    bool
	id     string
	rotate bool
	remove bool
	log    bool
}

func (p *cli) pingsCommand() *cobra.Command {
	var wish pingsWish
	cmd := &cobra.Command{
		Use: "pings RULE", Short: "Show where the pings of a rule come in, make and take away addresses, and show what came",
		Long: "Show where the pings of a rule come in. With --key or --ping-key, show that address, having made it where it is not there yet.\n" +
			"An address is a secret: whoever knows it can send pings.",
		Example: `  deadman rule pings backup --key nightly
  curl -fsS -m 10 --retry 5 "$(deadman rule pings backup --key nightly)"
  deadman rule pings backup --key nightly --uuid 5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278
  deadman rule pings backup --log`,
		Args: exactly("RULE"), ValidArgsFunction: p.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wish.check(); err != nil {
				return err
			}
			return p.pings(cmd.Context(), args[0], wish)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&wish.key, "key", "", "the address of this key")
	flags.BoolVar(&wish.all, "ping-key", false, "the address of all keys of the rule, which /<key> follows")
	flags.StringVar(&wish.id, "uuid", "", "the UUID, or the ping key, that clients have already")
	flags.BoolVar(&wish.rotate, "rotate", false, "another address in the place of the one that is there")
	flags.BoolVar(&wish.remove, "remove", false, "take the address away")
	flags.BoolVar(&wish.log, "log", false, "show the last pings, newest first; with --key those of this key")
	return cmd
}

// check rejects flags that exclude each other.
func (w pingsWish) check() error {
	one := w.key != "" || w.all
	switch {
	case !utf8.ValidString(w.key):
		return usage("--key %q is no UTF-8, and no key has such bytes", w.key)
	case w.key != "" && w.all:
		return usage("--key and --ping-key are two addresses; give one of them")
	case !one && (w.id != "" || w.rotate || w.remove):
		return usage("it is not said which address; give --key KEY or --ping-key")
	case w.remove && (w.id != "" || w.rotate):
		return usage("--remove takes no --uuid and no --rotate")
	case w.log && (w.all || w.id != "" || w.rotate || w.remove):
		return usage("--log takes --key and nothing else")
	}
	return nil
}

func (p *cli) pings(ctx context.Context, rule string, wish pingsWish) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	path := pingsPath(rule)
	switch {
	case wish.log:
		return p.pingLog(ctx, path+"/log", wish.key)
	case wish.remove:
		return p.removePing(ctx, c, path, wish)
	case wish.key != "" || wish.all:
		return p.makePing(ctx, c, rule, wish)
	}
	return p.listPings(ctx, c, rule)
}

func pingsPath(rule string) string { return rulePath(rule) + "/pings" }

// makePing creates or reads a ping URL and prints it on its own line, for scripts.
func (p *cli) makePing(ctx context.Context, c *client, rule string, wish pingsWish) error {
	body := map[string]any{"key": wish.key, "id": wish.id, "rotate": wish.rotate}
	address, _, err := tell[web.PingAddress](ctx, c, http.MethodPost, pingsPath(rule), nil, body)
	if err != nil {
		return err
	}
	address.URL = c.whole(address.URL)
	if p.output == asJSON {
		return writeValue(p.out, address)
	}
	if _, err = fmt.Fprintln(p.out, sanitize(shown(address))); err != nil {
		return err
	}
	return p.hintUndeclared(ctx, c, rule, []web.PingAddress{address})
}

// shown returns a ping URL with a placeholder for the key if the URL is for all keys.
func shown(a web.PingAddress) string {
	if a.Key == "" {
		return a.URL + "/<key>"
	}
	return a.URL
}

// hintUndeclared warns about URLs whose keys are not among the rule's declared keys. Such a key may be misspelled, or
// removed from the rule.
func (p *cli) hintUndeclared(ctx context.Context, c *client, rule string, all []web.PingAddress) error {
	d, err := c.rule(ctx, rule)
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
		fmt.Fprintf(p.err, "not in keys of rule %s: %s; a ping there begins a wait all the same, and --remove takes an address away\n",
			sanitize(rule), strings.Join(others, ", "))
	}
	return nil
}

// whole completes a URL that the node returned as a path.
func (c *client) whole(address string) string {
	if strings.HasPrefix(address, "/") {
		return c.base + address
	}
	return address
}

func (p *cli) removePing(ctx context.Context, c *client, path string, wish pingsWish) error {
	if _, err := c.ask(ctx, http.MethodDelete, path, url.Values{"key": {wish.key}}, nil, nil); err != nil {
		return err
	}
	if p.output == asJSON {
		return writeValue(p.out, map[string]string{"key": wish.key, "outcome": "removed"})
	}
	_, err := fmt.Fprintln(p.out, "removed: no ping comes in there any more")
	return err
}

func (p *cli) listPings(ctx context.Context, c *client, rule string) error {
	all, err := every[web.PingAddress](ctx, c, pingsPath(rule), url.Values{})
	if err != nil {
		return err
	}
	for i := range all {
		all[i].URL = c.whole(all[i].URL)
	}
	switch {
	case p.output == asJSON:
		return writeValue(p.out, web.Page[web.PingAddress]{Items: all})
	case len(all) == 0:
		_, err := fmt.Fprintln(p.out, "there are no addresses; --key KEY makes one for a key, and --ping-key one for all keys of the rule")
		return err
	}
	t := newTable(p.out, p.palette, "key", "address", "made", "by")
	for _, a := range all {
		key := cellOf(a.Key)
		if a.Key == "" {
			key = dimCell("any")
		}
		t.row(key, cellOf(shown(a)), cellOf(web.Relative(a.CreatedAt, p.now())), cellOf(a.CreatedBy))
	}
	if err := t.end(); err != nil { // not clipped, because URLs are for copying
		return err
	}
	return p.hintUndeclared(ctx, c, rule, all)
}

// agentShown limits the shown user agent, in characters, to leave space for the body.
const agentShown = 32

func (p *cli) pingLog(ctx context.Context, path, key string) error {
	query := url.Values{"limit": {"100"}}
	if key != "" {
		query.Set("key", key)
	}
	return listing[web.PingEntry]{
		none:   "no ping came yet",
		header: []string{"when", "at", "key", "said", "run", "took", "client", "sent along"},
		row: func(p *cli, e web.PingEntry) []cell {
			return []cell{
				cellOf(web.Relative(e.At, p.now())), cellOf(p.exact(e.At)), cellOf(e.Key), saidBy(e), cellOf(e.Run), took(e), cellOf(clip(e.Agent, agentShown)), cellOf(e.Body),
			}
		},
	}.run(ctx, p, path, query)
}

// saidBy formats the kind and exit status of a ping.
func saidBy(e web.PingEntry) cell {
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

func took(e web.PingEntry) cell {
	if e.TookMS == 0 {
		return cellOf("")
	}
	return cellOf(time.Duration(e.TookMS * float64(time.Millisecond)).Round(time.Millisecond).String())
}
