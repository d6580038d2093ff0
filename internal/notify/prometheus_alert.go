package notify

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"deadman/alerts"
)

// prometheusAlert is an alert in the form of Prometheus: its labels identify it.
type prometheusAlert struct {
	Labels       model.LabelSet `json:"labels"`
	Annotations  model.LabelSet `json:"annotations"`
	StartsAt     time.Time      `json:"startsAt"`
	EndsAt       time.Time      `json:"endsAt"`       // of an alert for a receiver: zero while it fires
	GeneratorURL string         `json:"generatorURL"` // the page of the alert; empty: none
}

// newPrometheusAlert converts an alert of a rule with a description. It starts when the situation began: at the start of the
// job, or of the condition of the node. Alertmanager refuses an alert that ends before its start.
func newPrometheusAlert(a alerts.Alert, endsAt time.Time, description string) prometheusAlert {
	one := prometheusAlert{
		Labels: labelsOf(a), StartsAt: a.DecidedAt.UTC(), EndsAt: endsAt.UTC(), GeneratorURL: a.URL,
		Annotations: model.LabelSet{"summary": model.LabelValue(visible(a.Text))},
	}
	if !a.Since.IsZero() && a.Since.Before(a.DecidedAt) {
		one.StartsAt = a.Since.UTC()
	}
	if !endsAt.IsZero() && endsAt.Before(one.StartsAt) {
		one.EndsAt = one.StartsAt
	}
	if description != "" {
		one.Annotations["description"] = model.LabelValue(visible(description))
	}
	if link := a.Runbook(); link != "" {
		one.Annotations[alerts.RunbookURLLabel] = model.LabelValue(visible(link))
	}
	return one
}

// labelsOf returns the labels of an alert in the form of Prometheus. The fields of the alert replace labels with their names.
// Of two labels that become one name, the label that has this name stays, or else the first in the order of names: a label
// that changes between two messages would make it another alert.
func labelsOf(a alerts.Alert) model.LabelSet {
	labels := model.LabelSet{}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		given, value := labelName(name), model.LabelValue(a.Labels[name])
		if _, taken := labels[given]; value != "" && (!taken || string(given) == name) {
			labels[given] = value
		}
	}
	for name, value := range map[model.LabelName]string{
		model.AlertNameLabel: a.Rule, "entity": a.Entity, "key": a.Key, "severity": string(a.Severity), "step": a.Step,
	} {
		delete(labels, name)
		if value != "" {
			labels[name] = model.LabelValue(value)
		}
	}
	return labels
}

// labelName converts a name to the classic form of Prometheus: letters of ASCII, digits and underscores, and no digit first.
func labelName(name string) model.LabelName {
	var out []byte
	for i, c := range name {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && i > 0:
			out = append(out, byte(c))
		default:
			out = append(out, '_')
		}
	}
	return model.LabelName(out)
}
