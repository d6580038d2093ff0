package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newSessionCmd(io *cli) *cobra.Command {
	cmd := group("session", "List and revoke browser sessions")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		listing[web.Session]{
			short: "List browser sessions, newest first", path: "/sessions",
			none:   "no sessions",
			drop:   []string{"browser", "address", "last used"},
			header: []string{"user", "logged in", "last used", "expires", "address", "browser", "id"},
			row: func(io *cli, s web.Session) []cell {
				return []cell{
					cellOf(s.Who()), cellOf(io.relative(s.CreatedAt)), cellOf(io.relative(s.LastUsedAt)),
					cellOf(io.relative(s.EndsAt)), cellOf(s.Addr), cellOf(s.UserAgent), dimCell("%s", s.ID),
				}
			},
		}.command(io),
		newSessionRevokeCmd(io),
	)
	return cmd
}

func newSessionRevokeCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID", Short: "Revoke a session: immediately on this node, within seconds on others", Args: exactly("ID")}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		if err := io.confirm(*yes, fmt.Sprintf("Revoke session %s? The user has to log in again.", args[0])); err != nil {
			return err
		}
		if _, err := c.request(cmd.Context(), http.MethodDelete, "/sessions/"+url.PathEscape(args[0]), nil, nil, nil); err != nil {
			return err
		}
		return io.report(map[string]string{"session": args[0], "outcome": "revoked"}, "revoked: session %s\n", sanitize(args[0]))
	}
	return cmd
}
