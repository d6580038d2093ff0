package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newEventCmd(io *cli) *cobra.Command {
	cmd := group("event", "Publish events and show stream state")
	addURL(cmd.PersistentFlags(), io)
	var id, file string
	send := &cobra.Command{
		Use: "send SUBJECT [DATA|@FILE|-] | send -f FILE", Short: "Publish events and wait until they are durable; exit code 3 if a rule refuses one",
		Long: `Publishes an event, and waits until it is durable. With -f it publishes the events of a file in order,
one JSON object per line: {"subject": "orders.created", "data": {"id": "1"}, "id": "order-1-created"}.
The id is optional; a repeated event with an id is stored once. The first line that is invalid or not
accepted ends the command: the lines before it are published.`,
		Example: `  deadman event send orders.shipped '{"id": "1234"}'
  deadman event send orders.created @order.json --id order-1234-created
  deadman event send -f events.ndjson`,
		Args: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				if len(args) > 0 || id != "" {
					return usage("%s -f accepts no SUBJECT, DATA or --id; each line of the file has its own", commandName(cmd))
				}
				return nil
			}
			if len(args) < 1 || len(args) > 2 {
				return usage("%s requires SUBJECT and accepts DATA; got %s", commandName(cmd), number(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				return sendEvents(io, cmd, file)
			}
			data, err := io.eventData(args[1:])
			if err != nil {
				return err
			}
			if err := checkData(data); err != nil {
				return err
			}
			c, err := io.client()
			if err != nil {
				return err
			}
			published, err := sendEvent(cmd.Context(), c, args[0], id, data)
			if err != nil {
				return err
			}
			if io.output == asJSON {
				err = writeValue(io.out, published)
			} else {
				err = printPublished(io, args[0], published)
			}
			if err == nil && len(published.WouldDeadLetter) > 0 {
				err = unmetSend.err()
			}
			return err
		},
	}
	send.Flags().StringVar(&id, "id", "", "event id for deduplication: events with the same id, subject and token are stored once")
	send.Flags().VarP(typedText{&file, "file"}, "file", "f", "file of events, one JSON object per line; - for standard input")
	complete(send, "file", completeFiles("ndjson", "jsonl"))
	cmd.AddCommand(send, newEventStreamsCmd(io))
	return cmd
}

// checkData refuses data that begins as JSON and is none: rules would refuse the event, and its sender would not know.
func checkData(data []byte) error {
	text := bytes.TrimSpace(data)
	if len(text) == 0 || !strings.ContainsRune(`{["`, rune(text[0])) {
		return nil
	}
	var value json.RawMessage
	if err := json.Unmarshal(text, &value); err != nil {
		return usage("DATA is not JSON: %v; quote it for the shell, as in '{\"id\": \"1\"}'", err)
	}
	return nil
}

// printPublished prints the place of a published event, and warns about rules that would refuse it.
func printPublished(io *cli, subject string, published web.PublishResult) error {
	for _, r := range published.WouldDeadLetter {
		by := "event would be refused"
		if r.Rule != "" {
			by = "rule " + sanitize(r.Rule) + " would refuse the event"
		}
		fmt.Fprintf(io.err, "warning: %s: %s; see deadman dead-letter list\n", by, sanitize(r.Reason))
	}
	if published.NotEvaluated {
		fmt.Fprintf(io.err, "warning: the node is busy and did not match the event against rules\n")
	}
	how := "published"
	if published.Duplicate {
		how = "duplicate, already published"
	}
	where := "a message"
	if published.Seq > 0 { // hidden from limited tokens
		where = fmt.Sprint("message ", published.Seq)
	}
	if _, err := fmt.Fprintf(io.out, "%s: %s, %s of stream %s\n", how, sanitize(subject), where, sanitize(published.Stream)); err != nil {
		return err
	}
	return printAffected(io, published)
}

// printAffected prints the jobs that an event concerns, or that it concerns none, as far as the token may know.
func printAffected(io *cli, published web.PublishResult) error {
	none := len(published.Affected)+len(published.WouldDeadLetter) == 0 && !published.NotEvaluated
	switch {
	case none && published.EffectsHidden:
		_, err := fmt.Fprintln(io.out, "no rule that the token may read takes it; the effects of other rules are hidden: they need a token with the scope read that covers them")
		return err
	case none:
		_, err := fmt.Fprintln(io.out, "no rule takes it: none subscribes to it, those that do are paused or disabled, or their keys and conditions do not match")
		return err
	}
	for _, a := range published.Affected {
		note := ""
		if a.Paused {
			note = " (the rule is paused or disabled; a key without a job is not watched)"
		}
		if _, err := fmt.Fprintf(io.out, "%s of %s: %s %s%s\n", cmp.Or(effectTexts[a.Effect], "concerns a job"), sanitize(a.Rule), sanitize(a.Entity), sanitize(a.Key), note); err != nil {
			return err
		}
	}
	return nil
}

// effectTexts are the effects of an event on a job, in words.
var effectTexts = map[string]string{
	"start": "starts a job, unless one is pending,", "heartbeat": "reports to the heartbeat", "resolve": "ends the pending job, if any,",
	"member": "adds a member to the pending job, if any,", "update": "updates the pending job, if any,", "pause": "pauses the pending job, if any,",
	"resume": "resumes the pending job, if it is paused,",
}

func sendEvent(ctx context.Context, c *client, subject, id string, data []byte) (web.PublishResult, error) {
	var published web.PublishResult
	header := http.Header{}
	if json.Valid(data) {
		header.Set("Content-Type", "application/json")
	}
	if id != "" {
		header.Set("Nats-Msg-Id", id)
	}
	raw, err := c.request(ctx, http.MethodPost, "/events/"+url.PathEscape(subject), nil, data, header)
	if err != nil {
		return published, err
	}
	if err := json.Unmarshal(raw, &published); err != nil {
		return published, c.unreadable(err)
	}
	return published, nil
}

func newEventStreamsCmd(io *cli) *cobra.Command {
	return listing[web.Stream]{
		use: "streams", short: "List the streams with rule subjects and their ingest lag", path: "/streams",
		none:   "no rule uses a stream",
		drop:   []string{"gap-free since", "jobs created", "read by", "line", "unread", "rules"},
		header: []string{"stream", "line", "state", "last event", "unread", "lag", "jobs created", "read by", "gap-free since", "problem", "rules"},
		row:    streamRow,
	}.command(io)
}

func streamRow(io *cli, s web.Stream) []cell {
	name := strings.ReplaceAll(s.State, "_", " ")
	state := colouredCell(red, name)
	switch s.State {
	case web.StreamUpToDate:
		state = colouredCell(green, name)
	case web.StreamBehind:
		state = colouredCell(yellow, name)
	}
	behind, lag := dimCell("unknown"), dimCell("never read")
	if s.LagMessages != nil {
		behind = cellOf(strconv.FormatUint(*s.LagMessages, 10))
	}
	if s.Lag != nil {
		lag = cellOf(fmt.Sprintf("%.1f s", *s.Lag))
	}
	named := s.Rules[:min(len(s.Rules), 3)]
	rules := strings.Join(named, ", ")
	if more := s.RuleCount - len(named); more > 0 {
		rules += fmt.Sprintf(" and %d more", more)
	}
	return []cell{
		colouredCell(bold, s.Name), cellOf(s.Line), state, relativeCell(io, s.LastAt, "none"), behind, lag, numberCell(s.Created),
		cellOf(s.ReadBy), relativeCell(io, s.GapFreeSince, "always"), cellOf(s.Problem), cellOf(rules),
	}
}
