package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/prometheus/common/model"

	"deadman/alerts"
)

// alertmanager is a channel to receivers of Alertmanager webhooks, in version 4 of their format
// (https://prometheus.io/docs/alerting/latest/configuration/#webhook_config).
type alertmanager struct {
	name   string
	url    string
	client *http.Client
}

// amMessage is a message in Alertmanager's format.
type amMessage struct {
	Version           string         `json:"version"`
	GroupKey          string         `json:"groupKey"`
	TruncatedAlerts   int            `json:"truncatedAlerts"`
	Status            string         `json:"status"`
	Receiver          string         `json:"receiver"`
	GroupLabels       model.LabelSet `json:"groupLabels"`
	CommonLabels      model.LabelSet `json:"commonLabels"`
	CommonAnnotations model.LabelSet `json:"commonAnnotations"`
	ExternalURL       string         `json:"externalURL"`
	Alerts            []amAlert      `json:"alerts"`
}

// amAlert is an alert in Alertmanager's format. The fingerprint is derived from the labels, so that a firing alert
// and its resolution share it.
type amAlert struct {
	Status       string         `json:"status"`
	Labels       model.LabelSet `json:"labels"`
	Annotations  model.LabelSet `json:"annotations"`
	StartsAt     time.Time      `json:"startsAt"`
	EndsAt       time.Time      `json:"endsAt"` // zero while it fires
	GeneratorURL string         `json:"generatorURL"`
	Fingerprint  string         `json:"fingerprint"`
}

// The statuses in Alertmanager's format.
const (
	amFiring   = "firing"
	amResolved = "resolved"
)

// Send implements Channel.
func (c *alertmanager) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(c.message(m))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Alertmanager (deadman)")
	return do(c.client, r)
}

func (c *alertmanager) message(m Message) amMessage {
	out := amMessage{
		Version: "4", GroupKey: m.Thread(), Status: amResolved, Receiver: c.name, ExternalURL: m.PublicURL,
		TruncatedAlerts: m.Notification.Alerts - len(m.Alerts), Alerts: []amAlert{},
		GroupLabels: model.LabelSet{"topic": model.LabelValue(m.Topic)},
	}
	descriptions := make(map[string]string)
	for _, k := range m.Keys {
		descriptions[k.Rule] = k.Description
	}
	for _, a := range m.Alerts {
		for _, one := range amAlerts(a, m.Closed) {
			if text := descriptions[a.Rule]; text != "" {
				one.Annotations["description"] = model.LabelValue(visible(text))
			}
			out.Alerts = append(out.Alerts, one)
		}
	}
	for i, a := range out.Alerts {
		if a.Status == amFiring {
			out.Status = amFiring
		}
		if i == 0 {
			out.CommonLabels, out.CommonAnnotations = maps.Clone(a.Labels), maps.Clone(a.Annotations)
			continue
		}
		common(out.CommonLabels, a.Labels)
		common(out.CommonAnnotations, a.Annotations)
	}
	return out
}

// common removes from all the labels that are missing or different in one.
func common(all, one model.LabelSet) {
	maps.DeleteFunc(all, func(name model.LabelName, value model.LabelValue) bool {
		had, ok := one[name]
		return !ok || had != value
	})
}

// amAlerts converts an alert to Alertmanager's format: a resolving alert becomes the alerts that it closes, resolved.
func amAlerts(a alerts.Alert, closed map[alerts.ID]alerts.Alert) []amAlert {
	if a.Status != alerts.Resolved {
		return []amAlert{amOne(a, amFiring, time.Time{})}
	}
	var all []amAlert
	for _, id := range a.Closes {
		if fired, ok := closed[id]; ok {
			fired.Text, fired.URL = a.Text, a.URL
			all = append(all, amOne(fired, amResolved, a.DecidedAt))
		}
	}
	return all
}

func amOne(a alerts.Alert, status string, endsAt time.Time) amAlert {
	labels := model.LabelSet{}
	for name, value := range a.Labels {
		labels[labelName(name)] = model.LabelValue(value)
	}
	for name, value := range map[model.LabelName]string{
		model.AlertNameLabel: a.Rule, "entity": a.Entity, "key": a.Key, "severity": string(a.Severity), "step": a.Step,
	} {
		if value != "" {
			labels[name] = model.LabelValue(value)
		}
	}
	one := amAlert{
		Status: status, Labels: labels, StartsAt: a.DecidedAt.UTC(), EndsAt: endsAt.UTC(), GeneratorURL: a.URL,
		Annotations: model.LabelSet{"summary": model.LabelValue(visible(a.Text))},
	}
	if link := a.Runbook(); link != "" {
		one.Annotations[alerts.RunbookURLLabel] = model.LabelValue(visible(link))
	}
	one.Fingerprint = labels.Fingerprint().String()
	return one
}

// labelName converts a name to the classic form of Prometheus: letters, digits and underscores.
func labelName(name string) model.LabelName {
	out := []byte(name)
	for i, c := range out {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if digit := c >= '0' && c <= '9'; !letter && (!digit || i == 0) {
			out[i] = '_'
		}
	}
	return model.LabelName(out)
}
