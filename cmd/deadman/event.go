package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) eventCommand() *cobra.Command {
	cmd := group("event", "Tell that something happened, and see how far streams are read")
	addURL(cmd.PersistentFlags(), p)
	var id string
	send := &cobra.Command{
		Use: "send SUBJECT [DATA|@FILE|-]", Short: "Publish an event, and return when it is durable",
		Example: `  deadman event send orders.shipped '{"id": "1234"}'
  deadman event send orders.created @order.json --id order-1234-created`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("%s takes SUBJECT and DATA; it got %s", cmd.CommandPath(), number(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := p.eventData(args[1:])
			if err != nil {
				return err
			}
			c, err := p.client()
			if err != nil {
				return err
			}
			taken, err := c.sendEvent(cmd.Context(), args[0], id, data)
			if err != nil {
				return err
			}
			if p.output == asJSON {
				return writeValue(p.out, taken)
			}
			return p.showTaken(args[0], taken)
		},
	}
	send.Flags().StringVar(&id, "id", "", "the event's own id; a repeat of it on the subject with the same token is stored once")
	cmd.AddCommand(send, p.streamsCommand())
	return cmd
}

// showTaken prints the place of a published event, and warns about rules that would refuse it.
func (p *cli) showTaken(subject string, taken web.PublishResult) error {
	for _, r := range taken.WouldDeadLetter {
		by := "no rule takes it in"
		if r.Rule != "" {
			by = "rule " + sanitize(r.Rule) + " does not take it in"
		}
		fmt.Fprintf(p.err, "%s: %s (deadman dead-letter list)\n", by, sanitize(r.Reason))
	}
	if taken.Unmatched {
		fmt.Fprintf(p.err, "the node is busy and does not say which rules take it in\n")
	}
	how := "taken in"
	if taken.Duplicate {
		how = "taken in before, and not again"
	}
	where := "a message"
	if taken.Seq > 0 { // hidden from limited tokens
		where = fmt.Sprint("message ", taken.Seq)
	}
	_, err := fmt.Fprintf(p.out, "%s: %s is %s of stream %s\n", how, sanitize(subject), where, sanitize(taken.Stream))
	return err
}

// eventData returns the body given as an argument, as a file, or on standard input.
func (p *cli) eventData(args []string) ([]byte, error) {
	switch {
	case len(args) == 0 && isTerminal(p.in):
		return nil, usage("the event's data is missing; give it as JSON, as @FILE, or - for the standard input")
	case len(args) == 0 || args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(p.in, web.MaxEventBytes+1))
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
func (p *cli) jsonFlag(flag, value string) (json.RawMessage, error) {
	if value == "" {
		return nil, nil
	}
	data, err := p.eventData([]string{value})
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, usage(`--%s: %s is no JSON; write it as '{"id": "1"}', or @FILE for that of a file`, flag, clip(value, 60))
	}
	return data, nil
}

func tooLarge(data []byte) error {
	if len(data) > web.MaxEventBytes {
		return fmt.Errorf("the event is over the limit of %d KiB", web.MaxEventBytes>>10)
	}
	return nil
}

func (c *client) sendEvent(ctx context.Context, subject, id string, data []byte) (web.PublishResult, error) {
	var taken web.PublishResult
	header := http.Header{}
	if json.Valid(data) {
		header.Set("Content-Type", "application/json")
	}
	if id != "" {
		header.Set("Nats-Msg-Id", id)
	}
	raw, err := c.ask(ctx, http.MethodPost, "/events/"+url.PathEscape(subject), nil, data, header)
	if err != nil {
		return taken, err
	}
	if err := json.Unmarshal(raw, &taken); err != nil {
		return taken, c.unreadable(err)
	}
	return taken, nil
}
