package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

// Values of the filters of alerts.
var (
	severities = wordsOf(alerts.Info, alerts.Warning, alerts.Error, alerts.Critical)
	statuses   = wordsOf(alerts.Firing, alerts.Resolved, alerts.Undetermined, alerts.GaveUp, alerts.Expired)
)

// Filters of alerts.
var (
	byStatus   = filter{parameter: "status", does: "filter by status: " + strings.Join(statuses, ", "), values: statuses}
	bySeverity = filter{parameter: "severity", does: "filter by severity: " + strings.Join(severities, ", "), values: severities}
	byLabel    = filter{parameter: "label", does: "only open alerts with this label, as NAME=VALUE"}
)

func wordsOf[W ~string](all ...W) []string {
	words := make([]string, len(all))
	for i, w := range all {
		words[i] = string(w)
	}
	return words
}

func newAlertCmd(io *cli) *cobra.Command {
	cmd := group("alert", "List, follow and acknowledge alerts")
	addURL(cmd.PersistentFlags(), io)
	raised := listing[web.Alert]{
		short: "List alerts, newest first", path: "/alerts",
		filters: []filter{
			byRule, byEntity, byKey,
			{parameter: "open", does: "only open alerts: the newest firing alert of each pending job and of each outage, and alerts about lost data", kind: filterFlag},
			{parameter: "acknowledged", does: "only open alerts that are acknowledged (true) or not (false); requires --open", values: []string{"true", "false"}},
			byLabel, byStatus, bySeverity,
			since("decided_after", "after", "raised"), until("decided_before", "before", "raised"),
		},
		none:   "no alerts",
		drop:   []string{"step", "entity", "rule"},
		header: []string{"id", "raised", "severity", "rule", "entity", "key", "step", "summary"},
		row: func(io *cli, a web.Alert) []cell {
			alert := a.Record()
			return []cell{
				dimCell("%s", shortID(alert.ID)), cellOf(io.relative(alert.DecidedAt)), colouredCell(newAlertColour(alert), severityText(a)),
				cellOf(alert.Rule), cellOf(alert.Entity), cellOf(alert.Key), cellOf(alert.Step), cellOf(alert.Text),
			}
		},
	}
	cmd.AddCommand(
		raised.command(io), export[web.Alert, alertRow]{raised, "alerts", newAlertRow, keptAlerts}.command(io),
		&cobra.Command{Use: "get ID", Short: "Show one alert by its id or the last characters of it", Args: exactly("ID"), RunE: io.with(getAlert)},
		newAlertGroupsCmd(io),
		newAlertTailCmd(io),
		newAlertAckCmd(io), newAlertUnackCmd(io), newAlertSnoozeCmd(io), newAlertCloseCmd(io),
		newAlertRepublishCmd(io),
	)
	return cmd
}

// severityText returns the severity or status of an alert, marked if it is acknowledged or snoozed.
func severityText(a web.Alert) string {
	text := severityOrStatus(a.Record())
	if a.Acknowledged != nil {
		text += ", acked"
	}
	if !a.SnoozedUntil.IsZero() {
		text += ", snoozed"
	}
	return text
}

// severityOrStatus returns the severity of a firing alert, and the status of any other.
func severityOrStatus(a alerts.Alert) string {
	if a.Status == alerts.Firing {
		return string(a.Severity)
	}
	return string(a.Status)
}

func getAlert(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	a, raw, err := readAlert(cmd.Context(), c, args[0])
	if err != nil {
		return err
	}
	return io.write(raw, func() error {
		known, _, err := get[web.Page[web.Rule]](cmd.Context(), c, "/rules", url.Values{"name": {a.Rule}})
		if err != nil {
			return err
		}
		pending, err := readJobOfAlert(cmd.Context(), c, a)
		if err != nil {
			return err
		}
		return printAlert(io, a, known.Items, pending)
	})
}

// readJobOfAlert returns the pending job that raised an alert; nil: it has ended, or the alert is about no job.
func readJobOfAlert(ctx context.Context, c *client, a web.Alert) (*web.Job, error) {
	jobs, _, err := get[web.Page[web.Job]](ctx, c, "/jobs", url.Values{"rule": {a.Rule}, "entity": {a.Entity}, "key": {a.Key}})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs.Items {
		if slices.Contains(j.Alerts, a.ID) {
			return &j, nil
		}
	}
	return nil, nil
}

// printAlert prints an alert with the description of its rule, if known: a rule of the node itself, or a deleted one, is
// not. pending is its job; nil: the job has ended, or the alert is about no job.
func printAlert(io *cli, as web.Alert, known []web.Rule, pending *web.Job) error {
	s, a := newKeyValues(io), as.Record()
	status := string(a.Status)
	if as.Ended != nil {
		status = printEnd(s, *as.Ended)
	}
	s.line("alert", "%s", a.ID)
	s.painted("summary", newAlertColour(a), a.Text)
	for _, r := range known {
		if r.Description != "" {
			s.line("description", "%s", r.Description)
		}
	}
	if runbook := a.Runbook(); runbook != "" {
		s.line("runbook", "%s", runbook)
	}
	printPingOutput(s, as)
	s.line("severity", "%s, %s", a.Severity, status)
	s.line("rule", "%s, version %d", a.Rule, a.RuleVersion)
	s.line(a.Entity, "%s", a.Key)
	if a.Step != "" {
		s.line("step", "%s", a.Step)
	}
	if len(a.SkippedSteps) > 0 {
		s.line("skipped", "%s", strings.Join(a.SkippedSteps, ", "))
	}
	s.instant("started", a.Since)
	s.instant("slot", a.Slot)
	s.instant("raised", a.DecidedAt)
	s.line("published", "%t", as.Published)
	if as.Withheld {
		s.line("withheld", "not published: quota exceeded")
	}
	printAck(s, as.Acknowledged)
	s.instant("snoozed until", as.SnoozedUntil)
	if pending != nil {
		printNextCheck(s, *pending)
	}
	for _, d := range as.Deliveries {
		s.line("delivery", "%s: %s", d.Channel, delivered(d))
	}
	for _, id := range a.Closes {
		s.line("closes", "%s", id)
	}
	if a.BodiesOverQuota {
		s.line("event", "not kept: quota exceeded")
	}
	s.document("event", a.Event)
	s.document("state", a.State)
	if pending != nil && a.Status == alerts.Firing && as.Acknowledged == nil {
		s.line("acknowledge", "deadman alert ack %s --for 1h", shortID(a.ID))
	}
	return s.end()
}

// printEnd prints the end of an alert, and returns the word for its state.
func printEnd(s *keyValues, end web.AlertEnd) string {
	word, text := "over", fmt.Sprintf("since %s (%s)", s.io.exact(end.At), end.Outcome)
	switch {
	case end.At.IsZero():
		text = "its job is not pending, and the history no longer has it"
	case end.By != "":
		word, text = "closed", fmt.Sprintf("by %s at %s", end.By, s.io.exact(end.At))
	}
	if end.Reason != "" {
		text += ": " + end.Reason
	}
	s.painted(word, dim, text)
	return word
}

// printPingOutput prints the last line that a failed ping sent along, if the alert is about one.
func printPingOutput(s *keyValues, a web.Alert) {
	if line := a.PingOutput(); line != "" {
		s.line("ping output", "%s", line)
	}
}

// delivered describes the delivery of an alert on a channel.
func delivered(d web.Delivery) string {
	switch {
	case d.Mute != 0:
		return fmt.Sprintf("muted by mute %d", d.Mute)
	case d.Error != "":
		return fmt.Sprintf("%s after %s: %s", d.State, number(d.Attempts, "attempt"), d.Error)
	}
	return d.State
}

// shownOfID is the number of trailing hex digits of an id in lists. An id begins with its time, which alerts of a
// slot share, and ends with a hash.
const shownOfID = 8

func shortID(id alerts.ID) string {
	s := id.String()
	return s[len(s)-shownOfID:]
}

// readAlert returns an alert by its id, or by the beginning or the end of its id, and its JSON.
func readAlert(ctx context.Context, c *client, text string) (a web.Alert, raw []byte, err error) {
	id, err := findAlert(ctx, c, text)
	if err != nil {
		return a, nil, err
	}
	return get[web.Alert](ctx, c, "/alerts/"+id.String(), nil)
}

// candidatesShown is the number of alerts that the error of an ambiguous id lists.
const candidatesShown = 5

// findAlert returns the full id for an id, or for the beginning or the end of the id of one alert only.
func findAlert(ctx context.Context, c *client, id string) (alerts.ID, error) {
	full, err := uuid.Parse(id)
	if err == nil {
		return full, nil
	}
	if !alerts.IsPartialID(id) {
		return full, usage("%q is not an alert id; give a full id or at least its last %d characters, as shown by deadman alert list", id, alerts.MinPartialID)
	}
	page, _, err := get[web.Page[web.Alert]](ctx, c, "/alerts", url.Values{"id": {id}, "limit": {strconv.Itoa(candidatesShown + 1)}})
	if err != nil {
		return full, err
	}
	switch len(page.Items) {
	case 0:
		return full, fmt.Errorf("no alert has an id that begins or ends with %s; deadman alert list shows the newest ones", id)
	case 1:
		return page.Items[0].ID, nil
	}
	var candidates strings.Builder
	for _, a := range page.Items[:min(len(page.Items), candidatesShown)] {
		fmt.Fprintf(&candidates, "\n  %s  %s  rule %s, %s %s", a.ID, a.DecidedAt.UTC().Format(time.RFC3339), a.Rule, a.Entity, sanitize(a.Key))
	}
	if len(page.Items) > candidatesShown {
		candidates.WriteString("\n  …")
	}
	return full, usage("several alerts have ids that begin or end with %s; give more characters of one of them:%s", id, candidates.String())
}

// findLastAlert returns the newest alert of the job of a rule and a key.
func findLastAlert(ctx context.Context, c *client, of []string) (id alerts.ID, err error) {
	path, query := jobPath(of)
	j, _, err := get[web.Job](ctx, c, path, query)
	switch {
	case err != nil:
		return id, err
	case len(j.Alerts) == 0:
		return id, fmt.Errorf("the job of rule %s for key %s has no alert to acknowledge; to postpone its checks, use deadman job snooze", of[0], of[1])
	}
	return j.Alerts[len(j.Alerts)-1], nil
}
