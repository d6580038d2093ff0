package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) channelCommand() *cobra.Command {
	cmd := group("channel", "See how alerts reach people, and try it")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.Channel]{
			short: "List channels and how they do", path: "/channels",
			none:   "there are no channels; serve --notify names a file of them",
			header: []string{"name", "kind", "state", "waiting", "sent", "last", "failing since", "error"},
			row: func(p *cli, c web.Channel) []cell {
				state := cellOf(c.State)
				switch c.State {
				case "working":
					state = colouredCell(green, c.State)
				case "failing":
					state = colouredCell(red, c.State)
				}
				return []cell{
					colouredCell(bold, c.Name), cellOf(c.Kind), state, sayNumber(c.Waiting), sayNumber(c.Sent),
					p.sometime(c.SentAt, "never"), p.sometime(c.FailingSince, ""), cellOf(c.Error),
				}
			},
		}.command(p),
		&cobra.Command{
			Use: "test NAME", Short: "Send a channel a message that says that it is a test; exit code 3 where it does not take it",
			Args: exactly("NAME"), RunE: p.testChannel,
		},
	)
	return cmd
}

func (p *cli) testChannel(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	t, raw, err := tell[web.Tested](cmd.Context(), c, http.MethodPost, "/channels/"+url.PathEscape(args[0])+"/test", nil, nil)
	if err != nil {
		return err
	}
	switch {
	case p.output == asJSON:
		err = writeJSON(p.out, raw)
	case t.Taken:
		_, err = fmt.Fprintf(p.out, "taken: the channel %s has the message\n", sanitize(t.Channel))
	default:
		_, err = fmt.Fprintf(p.err, "deadman: the channel %s did not take the message: %s\n", sanitize(t.Channel), sanitize(t.Reason))
	}
	if err == nil && !t.Taken {
		return silentError{exitCondition}
	}
	return err
}
