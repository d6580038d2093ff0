package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newChannelCmd(io *cli) *cobra.Command {
	cmd := group("channel", "List and test notification channels")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		listing[web.Channel]{
			short: "List channels and their state", path: "/channels",
			drop:   []string{"events of", "sent", "queued", "last sent", "kind"},
			none:   "no channels; configure them in the file of deadman serve --notify",
			header: []string{"name", "kind", "state", "queued", "sent", "last sent", "failing since", "events of", "error"},
			row: func(io *cli, c web.Channel) []cell {
				state := cellOf(c.State)
				switch c.State {
				case "working":
					state = colouredCell(green, c.State)
				case "failing":
					state = colouredCell(red, c.State)
				}
				return []cell{
					colouredCell(bold, c.Name), cellOf(c.Kind), state, numberCell(c.Pending), numberCell(c.Sent),
					relativeCell(io, c.SentAt, "never"), relativeCell(io, c.FailingSince, ""), cellOf(strings.Join(c.EventRules, ", ")), cellOf(c.Error),
				}
			},
		}.command(io),
		&cobra.Command{
			Use: "test NAME", Short: "Send a test message to a channel; exit code 3 if it fails",
			Args: exactly("NAME"), RunE: io.with(testChannel),
		},
		newRevokeLinksCmd(io),
	)
	return cmd
}

func testChannel(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	t, raw, err := call[web.ChannelTestResult](cmd.Context(), c, http.MethodPost, "/channels/"+url.PathEscape(args[0])+"/test", nil, nil)
	if err != nil {
		return err
	}
	switch {
	case io.output == asJSON:
		err = writeJSON(io.out, raw)
	case t.Delivered:
		_, err = fmt.Fprintf(io.out, "sent: test message to channel %s\n", sanitize(t.Channel))
	default:
		_, err = fmt.Fprintf(io.err, "deadman: test message to channel %s failed: %s\n", sanitize(t.Channel), sanitize(t.Reason))
	}
	if err == nil && !t.Delivered {
		return unmetTest.err()
	}
	return err
}

func newRevokeLinksCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke-links", Short: "Revoke all links and buttons in messages that acknowledge alerts",
		Long: "Revoke all links and buttons in messages that acknowledge alerts.\n\nThose of messages that were sent before are invalid at once, on all nodes. Later messages have new ones.",
		Args: cobra.NoArgs,
	}
	yes := addYes(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		if err := io.confirm(*yes, "Revoke all links and buttons of sent messages? Alerts can still be acknowledged in deadman."); err != nil {
			return err
		}
		if _, err := c.request(cmd.Context(), http.MethodDelete, "/channels/links", nil, nil, nil); err != nil {
			return err
		}
		return io.report(map[string]string{"ack_links": "all", "outcome": "revoked"}, "revoked: all links and buttons of sent messages\n")
	}
	return cmd
}
