package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/alerts"
	"deadman/web"
)

// nodeStatus is the result of status.
type nodeStatus struct {
	Sentence   string              `json:"sentence"`
	OK         bool                `json:"ok"` // all conditions hold, and no open alert is unacknowledged
	Open       web.OpenAlertCounts `json:"open"`
	Paused     []string            `json:"paused_rules,omitempty"`
	Unwatched  []string            `json:"never_reported_rules,omitempty"`
	Mutes      []web.Mute          `json:"mutes,omitempty"`         // in effect; absent if the token may not see them
	System     []web.Alert         `json:"system_alerts,omitempty"` // open alerts of deadman about itself, newest first
	Conditions []web.Condition     `json:"conditions"`
	Nodes      []web.Node          `json:"nodes,omitempty"` // absent if the token may not see them
	Error      string              `json:"error,omitempty"` // why only the conditions are known

	remedies []string // pages about the system alerts
	lost     string   // sentence about open alerts about lost data; empty: none is open
}

func newStatusCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show conditions, open alerts and nodes; exit code 3 if something is wrong", Args: exactly(),
		Long: `Shows whether deadman works and what is open: the conditions of the node, the unacknowledged alerts
by severity, open system alerts, paused rules, mutes and the nodes. Without its database a node has only the conditions. The
exit code is 3 if a condition failed or an open alert is not acknowledged.`,
		Example: "  deadman status\n  deadman status -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := io.client()
			if err != nil {
				return err
			}
			s, err := readStatus(cmd.Context(), c)
			if err != nil {
				return err
			}
			if io.output == asJSON {
				err = writeValue(io.out, s)
			} else {
				err = s.print(io)
			}
			if err == nil && !s.OK {
				err = unmetStatus.err()
			}
			return err
		},
	}
	addURL(cmd.Flags(), io)
	return cmd
}

// readStatus reads the parts of the status. Without its database, a node answers its conditions only.
func readStatus(ctx context.Context, c *client) (s nodeStatus, err error) {
	state, err := c.readiness(ctx)
	if err != nil {
		return s, err
	}
	s.Conditions = state.Conditions
	for i, condition := range s.Conditions {
		if condition.Runbook != "" {
			s.Conditions[i].Runbook = c.node + condition.Runbook
		}
	}
	err = s.readRest(ctx, c)
	s.Sentence, s.OK = state.Sentence(s.lost), state.Healthy && s.Open.Unacknowledged == 0
	var refused refusal
	if errors.As(err, &refused) && web.LacksDatabase(s.Conditions) {
		s.Error, s.OK, err = "the node does not reach its database", false, nil
	}
	return s, err
}

// readRest reads what a node answers from its database.
func (s *nodeStatus) readRest(ctx context.Context, c *client) error {
	groups, _, err := get[web.AlertGroups](ctx, c, "/alerts/groups", nil)
	if err != nil {
		return err
	}
	if s.Open = groups.Total; s.Open.Losses > 0 {
		restores, _, err := get[web.Page[web.Alert]](ctx, c, "/alerts", web.RestoreAlerts())
		if err != nil {
			return err
		}
		s.lost = web.LossSentence(restores.Items)
	}
	system, _, err := get[web.Page[web.Alert]](ctx, c, "/alerts", web.SystemAlerts())
	if err != nil && !isForbidden(err) {
		return err
	}
	s.System = web.OpenSystemAlerts(system.Items)
	for _, a := range s.System {
		if page := c.node + web.RemedyOf(a); !slices.Contains(s.remedies, page) {
			s.remedies = append(s.remedies, page)
		}
	}
	all, err := getAllPages[web.Rule](ctx, c, "/rules", url.Values{})
	if err != nil {
		return err
	}
	for _, r := range all {
		switch {
		case !r.PausedAt.IsZero():
			s.Paused = append(s.Paused, r.Name)
		case r.Enabled && r.NeverReported:
			s.Unwatched = append(s.Unwatched, r.Name)
		}
	}
	mutes, _, err := get[web.Page[web.Mute]](ctx, c, "/mutes", url.Values{"active": {"true"}})
	if s.Mutes = mutes.Items; err != nil && !isForbidden(err) {
		return err
	}
	nodes, _, err := get[web.Nodes](ctx, c, "/nodes", nil)
	if isForbidden(err) { // the token is limited to some rules
		return nil
	}
	s.Nodes = nodes.Items
	return err
}

// isForbidden reports whether the node denied the token access.
func isForbidden(err error) bool {
	var refused refusal
	return errors.As(err, &refused) && refused.Status == http.StatusForbidden
}

// readiness reads /readyz: a node without a vital condition answers with 503.
func (c *client) readiness(ctx context.Context) (state web.Readiness, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return state, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return state, c.unreachable(ctx, err, false)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return state, fmt.Errorf("response of %s interrupted: %w", c.node, err)
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, c.unreadable(err)
	}
	return state, nil
}

func (s nodeStatus) print(io *cli) error {
	colour := green
	if !s.OK {
		colour = red
	}
	lines := newKeyValues(io)
	lines.painted("open", colour, s.openText())
	lines.line("deadman", "%s", s.Sentence)
	for _, a := range s.System {
		lines.line("system alert", "%s, %s: %s", a.Severity, io.relative(a.DecidedAt), a.Text)
	}
	if len(s.Paused) > 0 {
		lines.line("paused", "%s", strings.Join(s.Paused, ", "))
	}
	if len(s.Unwatched) > 0 {
		lines.line("never reported", "%s", strings.Join(s.Unwatched, ", "))
	}
	for _, m := range s.Mutes {
		lines.line("mute", "%s, ends %s: %s", alerts.Match(m.Match), io.relative(m.EndsAt), m.Reason)
	}
	if err := lines.end(); err != nil {
		return err
	}
	if err := s.printConditions(io); err != nil || len(s.Nodes) == 0 {
		return err
	}
	fmt.Fprintln(io.out)
	t := newTable(io.out, io.palette, "node", "version", "seen", "shards", "state")
	for _, n := range s.Nodes {
		state := colouredCell(green, "ok")
		if n.UnfitReason != "" {
			state = colouredCell(red, "unfit: "+n.UnfitReason)
		}
		t.row(cellOf(n.Name), cellOf(n.Version), cellOf(io.relative(n.SeenAt)), numberCell(len(n.Shards)), state)
	}
	return t.fit(terminalWidth(io.out)).end()
}

// openText counts the open alerts by severity.
func (s nodeStatus) openText() string {
	switch {
	case s.Error != "":
		return "unknown: " + s.Error
	case s.Open.Unacknowledged+s.Open.Acknowledged == 0:
		return "no open alerts"
	}
	var parts []string
	for _, severity := range slices.Backward(severities) {
		if n := s.Open.Severities[severity]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", humanize.Comma(n), severity))
		}
	}
	if n := s.Open.Acknowledged; n > 0 {
		parts = append(parts, humanize.Comma(n)+" acknowledged")
	}
	return strings.Join(parts, ", ")
}

// printConditions prints the conditions: the failed ones first, and the database, the cause of others, before them.
func (s nodeStatus) printConditions(io *cli) error {
	conditions := slices.Clone(s.Conditions)
	if len(conditions) == 0 {
		return nil
	}
	rank := func(c web.Condition) int {
		switch {
		case c.OK:
			return 2
		case c.Name != web.DatabaseCondition:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(conditions, func(a, b web.Condition) int { return rank(a) - rank(b) })
	fmt.Fprintln(io.out)
	t := newTable(io.out, io.palette, "condition", "state", "detail")
	hidden := false
	for _, c := range conditions {
		state := colouredCell(green, "ok")
		if !c.OK {
			state, hidden = colouredCell(red, "failed"), hidden || c.Detail == ""
		}
		t.row(cellOf(strings.ReplaceAll(c.Name, "_", " ")), state, cellOf(c.Detail))
	}
	if err := t.fit(terminalWidth(io.out)).end(); err != nil {
		return err
	}
	if hidden && web.LacksDatabase(s.Conditions) {
		fmt.Fprintln(io.out, "details are hidden: the node cannot verify the token without its database, which other conditions need, too")
	}
	for _, c := range conditions {
		if c.Runbook == "" {
			continue
		}
		fmt.Fprintf(io.out, "remedies: %s\n", sanitize(c.Runbook))
		if c.Name == web.DatabaseCondition {
			break // first: the others follow from it, or are seen once it is back
		}
	}
	for _, page := range s.remedies {
		if !slices.ContainsFunc(conditions, func(c web.Condition) bool { return c.Runbook == page }) {
			fmt.Fprintf(io.out, "remedies: %s\n", sanitize(page))
		}
	}
	return nil
}
