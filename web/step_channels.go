package web

import (
	"context"
	"net/http"
	"strings"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/rules/document"
)

// StepChannels is a step of a rule with the channels that its alerts are sent to.
type StepChannels struct {
	Step     string   `json:"step" doc:"Name of the step." example:"primary"`
	Severity string   `json:"severity" doc:"Severity of the step's alerts."`
	Channels []string `json:"channels" nullable:"false" doc:"Names of the channels, in the order of the routes. Empty: the step notifies nobody."`
}

// RuleChannels lists the channels that each step of a rule reaches.
type RuleChannels struct {
	Steps []StepChannels `json:"steps" nullable:"false" doc:"Steps of the rule's newest version."`
}

// stepChannelAPI has the operation that lists the channels of steps.
type stepChannelAPI struct {
	rules    Rules
	lists    AlertReader
	channels Channels // nil: this node sends no notifications
}

func (a *stepChannelAPI) register(all *operations) {
	register(all, operation{
		ID: "list-rule-channels", Tag: tagRules, Method: "GET", Path: "/rules/{name}/channels", Summary: "list the channels that each step of a rule reaches",
		Description: "By the routes of this node, without mutes and limits. Labels with expressions count only with the parameter alert, as that alert has " +
			"them. 404 if this node has no channels.",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
}

// ruleChannelsIn is a rule, and an alert whose entity, key and labels the steps have.
type ruleChannelsIn struct {
	RuleName
	Alert alerts.ID `query:"alert" format:"uuid" doc:"Alert of the rule whose key and labels the alerts of the steps have."`
}

func (a *stepChannelAPI) list(ctx context.Context, in *ruleChannelsIn) (out RuleChannels, err error) {
	if a.channels == nil {
		return out, notFoundFor("channels on this node")
	}
	rule, err := a.rules.Get(ctx, string(in.Name))
	if err != nil {
		return out, err
	}
	like := alerts.Alert{Rule: rule.Name, Entity: rule.Entity}
	like.Status, like.Labels = alerts.Firing, constantLabels(rule.Document)
	if in.Alert != (alerts.ID{}) {
		listed, err := a.lists.Alert(ctx, in.Alert)
		if err == nil && listed.Rule != rule.Name {
			err = notFoundFor("alert " + in.Alert.String() + " of this rule")
		}
		if err != nil {
			return out, err
		}
		like.Key, like.Labels = listed.Key, listed.Labels
	}
	out.Steps = []StepChannels{}
	for _, s := range rule.Document.Steps() {
		like.Severity, like.Step = s.Severity, s.Name
		out.Steps = append(out.Steps, StepChannels{s.Name, string(s.Severity), append([]string{}, a.channels.Reached(like)...)})
	}
	return out, nil
}

// constantLabels returns the labels of a rule that are the same for all of its jobs.
func constantLabels(d document.Document) map[string]string {
	labels := make(map[string]string)
	for name, value := range d.Labels {
		if !strings.Contains(value, "{{") {
			labels[name] = value
		}
	}
	return labels
}
