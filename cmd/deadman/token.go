package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/internal/access"
	"deadman/web"
)

func (p *cli) tokenCommand() *cobra.Command {
	cmd := group("token", "Say who may do what, and see who did what")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		p.createTokenCommand(),
		listing[web.Token]{
			short: "List tokens, newest first, also those that ended", path: "/tokens",
			none:   "there are no tokens; deadman token create makes one",
			header: []string{"name", "scopes", "rules", "may use", "standing", "made", "by", "expires", "last used", "id"},
			row: func(p *cli, t web.Token) []cell {
				return []cell{
					cellOf(t.Name), cellOf(strings.Join(t.Scopes, " ")), cellOf(t.Prefix + "*"), uses(t.Bounds), standing(t),
					cellOf(web.Relative(t.CreatedAt, p.now())), cellOf(t.CreatedBy),
					p.sometime(t.ExpiresAt, "never"), p.sometime(t.LastUsedAt, "never"), dimCell("%s", t.ID),
				}
			},
		}.command(p),
		p.revokeTokenCommand(),
		&cobra.Command{Use: "self", Short: "Show which token this is, and what it may", Args: exactly(), RunE: p.showSelf},
		p.auditCommand(),
	)
	return cmd
}

// sometime formats a relative time, or a word if it is zero.
func (p *cli) sometime(t time.Time, otherwise string) cell {
	if t.IsZero() {
		return dimCell("%s", otherwise)
	}
	return cellOf(web.Relative(t, p.now()))
}

// uses formats the bounds of a token, or "all".
func uses(b web.Bounds) cell {
	if said := b.Uses(); said != "" {
		return cellOf(said)
	}
	return dimCell("all")
}

func standing(t web.Token) cell {
	if t.Standing == "live" {
		return colouredCell(green, t.Standing)
	}
	return dimCell("%s", t.Standing)
}

func (p *cli) createTokenCommand() *cobra.Command {
	var wish web.TokenRequest
	cmd := &cobra.Command{
		Use: "create NAME --scope SCOPE", Short: "Make a token; its secret is shown once",
		Example: `  deadman token create ci --scope events --expires 90d
  deadman token create acme --scope events --scope rules --prefix 'acme-*' --subject 'acme.>' --publish 'acme.>' --source 'acme-*'
  deadman token create ada --scope oncall`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(wish.Scopes) == 0 {
				return usage("--scope is missing; give at least one of %s", strings.Join(scopes, ", "))
			}
			if err := checkSpan("expires", wish.Expires); err != nil {
				return err
			}
			wish.Name = args[0]
			c, err := p.client()
			if err != nil {
				return err
			}
			t, raw, err := tell[web.NewToken](cmd.Context(), c, http.MethodPost, "/tokens", nil, wish)
			if err != nil {
				return err
			}
			if p.output == asJSON {
				return writeJSON(p.out, raw)
			}
			return p.showNewToken(t)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&wish.Scopes, "scope", nil, "what it allows: "+strings.Join(scopes, ", ")+"; more than one may be given")
	flags.StringVar(&wish.Prefix, "prefix", "", "only for rules whose names begin so, such as 'acme-*'")
	flags.StringSliceVar(&wish.Subjects, "subject", nil, "its rules may listen to this, such as 'acme.>'; may be repeated (default: all, or none with --prefix)")
	flags.StringSliceVar(&wish.Publish, "publish", nil, "it may publish on this, its rules may emit on it, and its lookups may request on it; may be repeated (default: as --subject)")
	flags.StringSliceVar(&wish.Sources, "source", nil, "its lookups may ask this source, such as shop or 'acme-*'; may be repeated (default: as --subject)")
	flags.StringSliceVar(&wish.Handlers, "handler", nil, "its rules may name this handler, such as shipping or 'acme-*'; may be repeated (default: as --subject)")
	flags.StringVar(&wish.Expires, "expires", "", "how long it is good for, such as 90d (default: for ever)")
	complete(cmd, "scope", completeWords(scopes...))
	return cmd
}

var scopes = wordsOf(access.Scopes...)

// showNewToken prints a new token. The secret is on the last line of stdout.
func (p *cli) showNewToken(t web.NewToken) error {
	s := newSheet(p)
	s.line("token", "%s", t.Name)
	s.line("scopes", "%s", strings.Join(t.Scopes, ", "))
	s.line("rules", "%s*", t.Prefix)
	s.uses(t.Bounds)
	s.instant("expires", t.ExpiresAt)
	s.painted("secret", green, t.Secret)
	if err := s.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.err, "Keep the secret now: it is not shown again. Clients of deadman take it from the variable DEADMAN_TOKEN.")
	if t.CreatedBy == access.Loopback {
		_, err = fmt.Fprintln(p.err, "The node takes tokens only from now on, unless it was started with --insecure: set DEADMAN_TOKEN to this one.")
	}
	return err
}

func (p *cli) revokeTokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID|NAME", Short: "End a token: at once on this node, within seconds on others", Args: exactly("ID|NAME")}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		if err := p.confirm(*yes, fmt.Sprintf("revoke token %s? Whoever uses it is refused from then on.", args[0])); err != nil {
			return err
		}
		if _, err := c.ask(cmd.Context(), http.MethodDelete, "/tokens/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
			return err
		}
		if p.output == asJSON {
			return writeValue(p.out, map[string]string{"token": args[0], "outcome": "revoked"})
		}
		_, err = fmt.Fprintf(p.out, "revoked: token %s opens nothing any more\n", sanitize(args[0]))
		return err
	}
	return cmd
}

func (p *cli) auditCommand() *cobra.Command {
	return listing[web.Entry]{
		use: "audit", short: "List who changed what, newest first", path: "/audit",
		filters: []filter{
			{parameter: "actor", does: "by this one only: a token's name, loopback, deadman; or a beginning and a *"},
			{parameter: "action", does: "this only, such as rule.save or job.*"},
			{parameter: "object", does: "to this only, such as rule/order-unshipped or job/order-unshipped/*"},
			since("after", "", "done"), until("before", "", "done"),
		},
		none: "nothing was changed yet", header: []string{"when", "at", "who", "from", "did", "to", "detail"},
		row: func(p *cli, e web.Entry) []cell {
			return []cell{
				cellOf(web.Relative(e.At, p.now())), cellOf(p.exact(e.At)), colouredCell(bold, e.Actor), cellOf(e.Addr),
				cellOf(e.Action), cellOf(e.Object), cellOf(e.Detail),
			}
		},
	}.command(p)
}
