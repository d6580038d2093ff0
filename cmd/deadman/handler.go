package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/remotehandlers"
	"deadman/web"
)

func (p *cli) handlerCommand() *cobra.Command {
	cmd := group("handler", "Write handlers in any language, see who answers, and try them")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(p.listHandlersCommand(), p.testHandlerCommand(), handlerSchemaCommand())
	return cmd
}

func handlerSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of what a handler is asked, and of what it answers",
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

func (p *cli) listHandlersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the handlers that rules want, who answers for them, and how they do on the node that is asked",
		Args: exactly(), RunE: p.listHandlers,
	}
}

func (p *cli) listHandlers(cmd *cobra.Command, _ []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	roll, raw, err := get[web.HandlerList](cmd.Context(), c, "/handlers", nil)
	switch {
	case err != nil:
		return err
	case p.output == asJSON:
		return writeJSON(p.out, raw)
	case len(roll.Items) == 0:
		_, err = fmt.Fprintln(p.out, "there are no handlers: no rule names one, and none answers")
	default:
		t := newTable(p.out, p.palette, "handler", "answers", "instances", "version", "state", "rules", "answered", "error")
		for _, h := range roll.Items {
			t.row(p.handlerRow(h)...)
		}
		err = t.fit(terminalWidth(p.out)).end()
	}
	if err == nil && roll.Unasked != "" {
		_, err = fmt.Fprintf(p.err, "deadman: the node does not know which services answer: %s\n", sanitize(roll.Unasked))
	}
	return err
}

func (p *cli) handlerRow(h web.Handler) []cell {
	answers, state, why := cellOf(string(h.Answers)), cellOf(h.State), ""
	switch h.Answers {
	case web.ByNobody:
		answers = colouredCell(red, string(h.Answers))
	case web.ByWhoever:
		answers = colouredCell(yellow, string(h.Answers))
	case web.ByProgram, web.ByService:
	}
	switch h.State {
	case "up":
		state = colouredCell(green, h.State)
	case "failing", "down", "trying":
		state, why = colouredCell(red, h.State), h.Error
	}
	instances := cellOf("")
	if h.Instances > 0 {
		instances = sayNumber(int64(h.Instances))
	}
	return []cell{
		colouredCell(bold, h.Name), answers, instances, cellOf(strings.Join(h.Versions, " ")), state,
		cellOf(strings.Join(h.Rules, " ")), p.sometime(h.AnsweredAt, ""), cellOf(why),
	}
}

func (p *cli) testHandlerCommand() *cobra.Command {
	var event, key string
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Ask a handler once about a check that is made up; exit code 3 where the answer is none",
		Long: `Asks a handler once about a check that is made up, and shows what it answers, or what is wrong
with that and where. The check is marked as asked by a person (manual), and nothing comes of
it. It is that of a rule that names the handler, where there is one. A handler with effects
(at_most_once) is not asked.`,
		Example: `  deadman handler test shipping --event '{"id": "1"}' --key 1`,
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := p.jsonFlag("event", event)
			if err != nil {
				return err
			}
			return p.testHandler(cmd, args[0], handlerTrial{key, data})
		},
	}
	cmd.Flags().StringVar(&event, "event", "", "the body of the event that began the wait: JSON, @FILE, or - (default: {})")
	cmd.Flags().StringVar(&key, "key", "", "the key of the wait (default: "+web.DefaultKey+")")
	complete(cmd, "event", completeFiles("json"))
	return cmd
}

// handlerTrial is the body of a request to test a handler.
type handlerTrial struct {
	Key   string          `json:"key,omitempty"`
	Event json.RawMessage `json:"event,omitempty"`
}

func (p *cli) testHandler(cmd *cobra.Command, name string, of handlerTrial) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	tried, raw, err := tell[web.HandlerTestResult](cmd.Context(), c, http.MethodPost, "/handlers/"+url.PathEscape(name)+"/test", nil, of)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		err = writeJSON(p.out, raw)
	} else {
		err = p.showTried(tried)
	}
	if err == nil && tried.Error != "" {
		err = silentError{exitCondition}
	}
	return err
}

func (p *cli) showTried(t web.HandlerTestResult) error {
	if t.Answer != nil {
		if err := p.showHandlerAnswer(t); err != nil {
			return err
		}
	}
	if t.Error != "" {
		_, err := fmt.Fprintf(p.err, "deadman: %s\n", sanitize(t.Error))
		return err
	}
	return nil
}

func (p *cli) showHandlerAnswer(t web.HandlerTestResult) error {
	s, a := newSheet(p), t.Answer
	s.painted("handler", bold, t.Handler)
	s.line("key", "%s", t.Key)
	if t.Rule != "" {
		s.line("as of rule", "%s", t.Rule)
	}
	s.line("took", "%.1f ms", t.TookMS)
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
		s.painted("says", severityColour(d.Severity), strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", d.Status, d.Severity, d.Step, d.Text)))
	}
	s.document("state", a.State)
	return s.end()
}
