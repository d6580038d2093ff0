package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/remotehandlers"
	"deadman/web"
)

func newHandlerCmd(io *cli) *cobra.Command {
	cmd := group("handler", "List and test handlers, and print their JSON Schema")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(newHandlerListCmd(io), newHandlerTestCmd(io), newHandlerSchemaCmd())
	return cmd
}

func newHandlerSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of handler requests and responses",
		Example: "  deadman handler schema > handler.schema.json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := remotehandlers.Schema()
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), schema)
		},
	}
}

func newHandlerListCmd(io *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List handlers, their providers and their state on the queried node",
		Args: exactly(), RunE: io.with(listHandlers),
	}
}

func listHandlers(io *cli, cmd *cobra.Command, _ []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	roll, raw, err := get[web.HandlerList](cmd.Context(), c, "/handlers", nil)
	switch {
	case err != nil:
		return err
	case io.output == asJSON:
		return writeJSON(io.out, raw)
	case len(roll.Items) == 0:
		_, err = fmt.Fprintln(io.out, "no handlers: none is registered, and no rule uses one")
	default:
		t := newTable(io.out, io.palette, "handler", "provider", "instances", "version", "state", "rules", "last response", "error")
		for _, h := range roll.Items {
			t.row(handlerRow(io, h)...)
		}
		err = t.fit(terminalWidth(io.out)).end()
	}
	if err == nil && roll.DiscoveryError != "" {
		_, err = fmt.Fprintf(io.err, "deadman: service discovery failed: %s\n", sanitize(roll.DiscoveryError))
	}
	return err
}

func handlerRow(io *cli, h web.Handler) []cell {
	answers, state, why := cellOf(string(h.Provider)), cellOf(h.State), ""
	switch h.Provider {
	case web.ProvidedByNone:
		answers = colouredCell(red, string(h.Provider))
	case web.ProviderUnknown:
		answers = colouredCell(yellow, string(h.Provider))
	case web.ProvidedByProgram, web.ProvidedByService:
	}
	switch h.State {
	case "up":
		state = colouredCell(green, h.State)
	case "failing", "down", "probing":
		state, why = colouredCell(red, h.State), h.Error
	}
	instances := cellOf("")
	if h.Instances > 0 {
		instances = numberCell(int64(h.Instances))
	}
	return []cell{
		colouredCell(bold, h.Name), answers, instances, cellOf(strings.Join(h.Versions, " ")), state,
		cellOf(strings.Join(h.Rules, " ")), relativeCell(io, h.AnsweredAt, ""), cellOf(why),
	}
}

func newHandlerTestCmd(io *cli) *cobra.Command {
	var event, key string
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Call a handler with a test check; exit code 3 if it fails",
		Long: `Calls a handler once with a test check and shows its response, or the errors in it. The check is
marked as manual and has no effect on jobs. If a rule uses the handler, the check is one of that
rule. A handler with side effects (at_most_once) is not called.`,
		Example: `  deadman handler test shipping --event '{"id": "1"}' --key 1`,
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := io.jsonFlag("event", event)
			if err != nil {
				return err
			}
			return testHandler(io, cmd, args[0], web.HandlerTestRequest{Key: web.Identifier(key), Event: data})
		},
	}
	textFlagVar(cmd.Flags(), &event, "event", "json", "", "body of the trigger event: JSON, @FILE, or - (default: {})")
	cmd.Flags().StringVar(&key, "key", "", "key of the job (default: "+web.DefaultKey+")")
	complete(cmd, "event", completeFiles("json"))
	return cmd
}

func testHandler(io *cli, cmd *cobra.Command, name string, request web.HandlerTestRequest) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	result, raw, err := call[web.HandlerTestResult](cmd.Context(), c, http.MethodPost, "/handlers/"+url.PathEscape(name)+"/test", nil, request)
	if err != nil {
		return err
	}
	if io.output == asJSON {
		err = writeJSON(io.out, raw)
	} else {
		err = printHandlerTest(io, result)
	}
	if err == nil && result.Error != "" {
		err = unmetTest.err()
	}
	return err
}

func printHandlerTest(io *cli, t web.HandlerTestResult) error {
	if t.Answer != nil {
		if err := printHandlerAnswer(io, t); err != nil {
			return err
		}
	}
	if t.Error != "" {
		_, err := fmt.Fprintf(io.err, "deadman: %s\n", sanitize(t.Error))
		return err
	}
	return nil
}

func printHandlerAnswer(io *cli, t web.HandlerTestResult) error {
	s, a := newKeyValues(io), t.Answer
	s.painted("handler", bold, t.Handler)
	s.line("key", "%s", t.Key)
	if t.Rule != "" {
		s.line("as rule", "%s", t.Rule)
	}
	s.line("duration", "%.1f ms", t.DurationMS)
	switch {
	case !a.Next.IsZero():
		s.instant("next", a.Next)
	case a.Outcome != "":
		s.line("ends", "%s", a.Outcome)
	default:
		s.line("ends", "cleared")
	}
	s.line("step", "%d", a.Step)
	for _, d := range a.Alerts {
		s.painted("alert", severityColour(d.Severity), strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", d.Status, d.Severity, d.Step, d.Text)))
	}
	s.document("state", a.State)
	return s.end()
}
