package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

// matchFlags are the flags that select open alerts.
type matchFlags struct {
	texts []*string // values, in the order of matchFields
	all   *bool
}

// matchFields are the flags with a value.
var matchFields = []string{"rule", "entity", "key", "severity", "status", "label"}

// matchValues are the valid values of a flag; a flag without them accepts any text.
var matchValues = map[string][]string{"severity": severities, "status": statuses}

func newMatchFlags(cmd *cobra.Command) matchFlags {
	does := map[string]string{
		"rule": "all open alerts of this rule", "entity": "all open alerts of this entity type", "key": "all open alerts of this key",
		"severity": "all open alerts of this severity: " + strings.Join(severities, ", "), "status": "all open alerts with this status: " + strings.Join(statuses, ", "),
		"label": "all open alerts with this label, as NAME=VALUE",
	}
	var m matchFlags
	for _, name := range matchFields {
		m.texts = append(m.texts, cmd.Flags().String(name, "", does[name]))
		if valid := matchValues[name]; valid != nil {
			complete(cmd, name, completeWords(valid...))
		}
	}
	m.all = cmd.Flags().Bool("all", false, "all open alerts")
	return m
}

// given returns the name of a flag that is set, or an empty text.
func (m matchFlags) given() string {
	for i, text := range m.texts {
		if *text != "" {
			return matchFields[i]
		}
	}
	if *m.all {
		return "all"
	}
	return ""
}

func (m matchFlags) match() web.OpenAlertMatch {
	return web.OpenAlertMatch{
		Rule: web.Identifier(*m.texts[0]), Entity: web.Identifier(*m.texts[1]), Key: web.Identifier(*m.texts[2]),
		Severity: *m.texts[3], Status: *m.texts[4], Label: web.Identifier(*m.texts[5]), All: *m.all,
	}
}

// acknowledge acknowledges all open alerts that match, in as many requests as it takes.
func (m matchFlags) acknowledge(io *cli, cmd *cobra.Command, args []string, by string, request web.AckRequest) error {
	if err := m.check(cmd, args, by); err != nil {
		return err
	}
	c, err := io.client()
	if err != nil {
		return err
	}
	var sum web.AckAllResult
	for {
		did, _, err := call[web.AckAllResult](cmd.Context(), c, http.MethodPost, "/alerts/ack", nil, web.AckAllRequest{AckRequest: request, Match: m.match()})
		if err != nil {
			return err
		}
		if sum.Acknowledged == 0 { // the first request
			sum.Before = did.Before
		}
		sum.Acknowledged += did.Acknowledged
		sum.Ended += did.Ended
		sum.Outages, sum.Losses, sum.Remaining = did.Outages, did.Losses, did.Remaining
		if did.Remaining == 0 || did.Acknowledged == 0 {
			break
		}
		if _, err := fmt.Fprintf(io.err, "%s acknowledged, %s remaining\n", number(int(sum.Acknowledged), "alert"), number(int(did.Remaining), "alert")); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	if err := io.write(raw, func() error { return printAckAll(io, sum) }); err != nil || sum != (web.AckAllResult{}) {
		return err
	}
	return warnUnknownRule(cmd.Context(), io, c, *m.texts[0])
}

// unacknowledge removes the acknowledgements of all open alerts that match, in as many requests as it takes.
func (m matchFlags) unacknowledge(io *cli, cmd *cobra.Command, args []string, by string) error {
	if err := m.check(cmd, args, by); err != nil {
		return err
	}
	c, err := io.client()
	if err != nil {
		return err
	}
	var sum web.UnackAllResult
	for more := true; more; {
		did, _, err := call[web.UnackAllResult](cmd.Context(), c, http.MethodPost, "/alerts/unack", nil, web.UnackAllRequest{Match: m.match()})
		if err != nil {
			return err
		}
		sum.Unacknowledged += did.Unacknowledged
		sum.Ended += did.Ended
		sum.Remaining = did.Remaining
		more = did.Remaining > 0 && did.Unacknowledged > 0
	}
	raw, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	err = io.write(raw, func() error {
		return printCounts(io, "acknowledgements removed from "+number(int(sum.Unacknowledged), "alert"), "alert", []countReason{
			{sum.Ended, "not changed: their jobs ended or changed meanwhile"},
			{sum.Remaining, "still acknowledged: the requests timed out; run the command again"},
		})
	})
	if err != nil || sum != (web.UnackAllResult{}) {
		return err
	}
	return warnUnknownRule(cmd.Context(), io, c, *m.texts[0])
}

// check returns an error unless the command has filters and no other arguments. by is the name of a given flag.
func (m matchFlags) check(cmd *cobra.Command, args []string, by string) error {
	if by == "" {
		return usage("%s requires ID, RULE KEY, or a filter such as --rule; got 0 arguments", commandName(cmd))
	}
	if len(args) > 0 {
		return usage("%s accepts either an alert or --%s, not both", commandName(cmd), by)
	}
	for i, name := range matchFields {
		if valid := matchValues[name]; *m.texts[i] != "" && valid != nil {
			if err := checkOneOf(name, *m.texts[i], valid); err != nil {
				return err
			}
		}
	}
	return nil
}

func printAckAll(io *cli, sum web.AckAllResult) error {
	return printCounts(io, fmt.Sprintf("%s acknowledged", number(int(sum.Acknowledged), "alert")), "alert", []countReason{
		{sum.Before, "acknowledged before, and not changed; deadman alert ack ID replaces an acknowledgement"},
		{sum.Ended, "not acknowledged: their jobs ended or changed meanwhile"},
		{sum.Outages, "not acknowledged: they are about outages and close when the outage ends"},
		{sum.Losses, "not acknowledged: they are about lost data; close them with deadman alert close"},
		{sum.Remaining, "not acknowledged: the requests timed out; run the command again"},
	})
}

// countReason is a number of objects that an action left out, with the reason.
type countReason struct {
	n   int64
	why string
}

// printCounts prints the result of an action on all objects of a filter, and the objects that it left out.
func printCounts(io *cli, result, noun string, left []countReason) error {
	if _, err := fmt.Fprintln(io.out, result); err != nil {
		return err
	}
	for _, l := range left {
		if l.n == 0 {
			continue
		}
		if _, err := fmt.Fprintf(io.out, "%s %s\n", number(int(l.n), noun), l.why); err != nil {
			return err
		}
	}
	return nil
}
