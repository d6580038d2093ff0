package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) sessionCommand() *cobra.Command {
	cmd := group("session", "See and end the logins of browsers")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.Session]{
			short: "List the browsers that are logged in, newest first", path: "/sessions",
			none:   "no browser is logged in",
			header: []string{"who", "logged in", "last used", "ends", "from", "browser", "id"},
			row: func(p *cli, s web.Session) []cell {
				return []cell{
					cellOf(s.Who()), cellOf(web.Relative(s.CreatedAt, p.now())), cellOf(web.Relative(s.LastUsedAt, p.now())),
					cellOf(web.Relative(s.EndsAt, p.now())), cellOf(s.Addr), cellOf(s.UserAgent), dimCell("%s", s.ID),
				}
			},
		}.command(p),
		p.revokeSessionCommand(),
	)
	return cmd
}

func (p *cli) revokeSessionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID", Short: "End a session: at once on this node, within seconds on others", Args: exactly("ID")}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		if err := p.confirm(*yes, fmt.Sprintf("end session %s? Its browser has to log in again.", args[0])); err != nil {
			return err
		}
		if _, err := c.ask(cmd.Context(), http.MethodDelete, "/sessions/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
			return err
		}
		if p.output == asJSON {
			return writeValue(p.out, map[string]string{"session": args[0], "outcome": "revoked"})
		}
		_, err = fmt.Fprintf(p.out, "revoked: session %s is over\n", sanitize(args[0]))
		return err
	}
	return cmd
}
