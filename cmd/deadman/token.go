package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/access"
	"deadman/web"
)

func newTokenCmd(io *cli) *cobra.Command {
	cmd := group("token", "Manage API tokens and show the audit log")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		newTokenCreateCmd(io),
		listing[web.Token]{
			short: "List tokens, newest first, including revoked and expired ones", path: "/tokens",
			drop:   []string{"id", "by", "last used", "created", "bounds"},
			none:   "no tokens; create one with deadman token create",
			header: []string{"name", "scopes", "rules", "bounds", "status", "created", "by", "expires", "last used", "id"},
			row: func(io *cli, t web.Token) []cell {
				return []cell{
					cellOf(t.Name), cellOf(strings.Join(t.Scopes, " ")), cellOf(t.Prefix + "*"), boundsCell(t.Bounds), tokenStatusCell(t),
					cellOf(io.relative(t.CreatedAt)), cellOf(t.CreatedBy),
					relativeCell(io, t.ExpiresAt, "never"), relativeCell(io, t.LastUsedAt, "never"), dimCell("%s", t.ID),
				}
			},
		}.command(io),
		newTokenRevokeCmd(io),
		&cobra.Command{Use: "self", Short: "Show the current token and its scopes", Args: exactly(), RunE: io.with(getSelf)},
		newTokenAuditCmd(io),
	)
	return cmd
}

// boundsCell formats the bounds of a token, or "all".
func boundsCell(b web.Bounds) cell {
	if text := b.Uses(); text != "" {
		return cellOf(text)
	}
	return dimCell("all")
}

func tokenStatusCell(t web.Token) cell {
	if t.Status == "active" {
		return colouredCell(green, t.Status)
	}
	return dimCell("%s", t.Status)
}

func newTokenCreateCmd(io *cli) *cobra.Command {
	var request web.TokenRequest
	cmd := &cobra.Command{
		Use: "create NAME --scope SCOPE", Short: "Create a token; its secret is shown once",
		Example: `  deadman token create ci --scope events --expires 90d
  deadman token create acme --scope events --scope rules --prefix 'acme-*' --subject 'acme.>' --publish 'acme.>' --source 'acme-*'
  deadman token create ada --scope oncall`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(request.Scopes) == 0 {
				return usage("--scope is required; scopes: %s", strings.Join(scopes, ", "))
			}
			for _, scope := range request.Scopes {
				if err := checkOneOf("scope", scope, scopes); err != nil {
					return err
				}
			}
			if err := checkSpan("expires", request.Expires); err != nil {
				return err
			}
			request.Name = args[0]
			c, err := io.client()
			if err != nil {
				return err
			}
			t, raw, err := call[web.NewToken](cmd.Context(), c, http.MethodPost, "/tokens", nil, request)
			if err != nil {
				return err
			}
			if t.Prefix != "" && slices.Contains(t.Scopes, string(access.Events)) && len(t.Bounds.Publish) == 0 {
				fmt.Fprintf(io.err, "warning: the token may not send events: it has the scope events and a prefix, and no subject to publish to; revoke it, and create it again with --publish 'SUBJECT'\n")
			}
			return io.write(raw, func() error { return printNewToken(io, t) })
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&request.Scopes, "scope", nil, "scope: "+strings.Join(scopes, ", ")+"; can be repeated (required)")
	flags.StringVar(&request.Prefix, "prefix", "", "only rules with this name prefix, such as 'acme-*'")
	flags.StringSliceVar(&request.Subjects, "subject", nil, "subject that its rules may subscribe to, such as 'acme.>'; can be repeated (default: all, or none with --prefix)")
	flags.StringSliceVar(&request.Publish, "publish", nil, "subject that the token, its rules and its lookups may publish to; can be repeated (default: all, or none with --prefix)")
	flags.StringSliceVar(&request.Sources, "source", nil, "source that its lookups may query, such as shop or 'acme-*'; can be repeated (default: all, or none with --prefix)")
	flags.StringSliceVar(&request.Handlers, "handler", nil, "handler that its rules may use, such as shipping or 'acme-*'; can be repeated (default: all, or none with --prefix)")
	textFlagVar(flags, &request.Expires, "expires", "duration", "", "lifetime, such as 90d (default: no expiry)")
	complete(cmd, "scope", completeWords(scopes...))
	return cmd
}

var scopes = wordsOf(access.Scopes...)

// printNewToken prints a new token. The secret is on the last line of stdout.
func printNewToken(io *cli, t web.NewToken) error {
	s := newKeyValues(io)
	s.line("token", "%s", t.Name)
	s.line("scopes", "%s", strings.Join(t.Scopes, ", "))
	s.line("rules", "%s*", t.Prefix)
	printBounds(s, t.Bounds)
	s.instant("expires", t.ExpiresAt)
	s.painted("secret", green, t.Secret)
	if err := s.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(io.err, "Save the secret now: it is not shown again. The deadman CLI reads it from DEADMAN_TOKEN.")
	if t.CreatedBy == access.Loopback {
		_, err = fmt.Fprintln(io.err, "From now on the node requires a token, unless it was started with --insecure: set DEADMAN_TOKEN to this one.")
	}
	return err
}

func newTokenRevokeCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID|NAME", Short: "Revoke a token: immediately on this node, within seconds on others", Args: exactly("ID|NAME")}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		if err := io.confirm(*yes, fmt.Sprintf("Revoke token %s? Its clients lose access.", args[0])); err != nil {
			return err
		}
		if _, err := c.request(cmd.Context(), http.MethodDelete, "/tokens/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
			return err
		}
		return io.report(map[string]string{"token": args[0], "outcome": "revoked"}, "revoked: token %s\n", sanitize(args[0]))
	}
	return cmd
}

func newTokenAuditCmd(io *cli) *cobra.Command {
	return listing[web.AuditEntry]{
		use: "audit", short: "List the audit log, newest first", path: "/audit",
		filters: []filter{
			{parameter: "actor", does: "filter by actor: a token name, loopback or deadman; prefix with *"},
			{parameter: "action", does: "filter by action, such as rule.save or job.*"},
			{parameter: "object", does: "filter by object, such as rule/order-unshipped or job/order-unshipped/*"},
			since("after", "", "recorded"), until("before", "", "recorded"),
		},
		none: "no entries", drop: []string{"time", "address"}, header: []string{"when", "time", "actor", "address", "action", "object", "detail"},
		row: func(io *cli, e web.AuditEntry) []cell {
			return []cell{
				cellOf(io.relative(e.At)), cellOf(io.exact(e.At)), colouredCell(bold, e.Actor), cellOf(e.Addr),
				cellOf(e.Action), cellOf(e.Object), cellOf(e.Detail),
			}
		},
	}.command(io)
}

func getSelf(io *cli, cmd *cobra.Command, _ []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	self, raw, err := get[web.TokenSelf](cmd.Context(), c, "/tokens/self", nil)
	if err != nil {
		return err
	}
	if io.output == asJSON {
		return writeJSON(io.out, raw)
	}
	s := newKeyValues(io)
	if self.Login == "" {
		s.line("token", "%s", self.Name)
	} else {
		s.line("user", "%s", self.Name)
	}
	if self.Open {
		s.line("node", "open: no token required")
	}
	s.line("scopes", "%s", strings.Join(self.Scopes, ", "))
	s.line("rules", "%s*", self.Prefix)
	printBounds(s, self.Bounds)
	printQuota(s, self.Quota)
	return s.end()
}

// printBounds prints a line for each kind of bound.
func printBounds(s *keyValues, b web.Bounds) {
	for _, list := range []struct {
		name string
		has  []string
	}{{"subjects", b.Subjects}, {"publish", b.Publish}, {"sources", b.Sources}, {"handlers", b.Handlers}} {
		switch {
		case list.has == nil:
		case len(list.has) == 0:
			s.line(list.name, "none")
		default:
			s.line(list.name, "%s", strings.Join(list.has, ", "))
		}
	}
}
