package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"deadman/alerts"
)

// alertmanagerWebhook is a channel to receivers of Alertmanager webhooks, in version 4 of their format
// (https://prometheus.io/docs/alerting/latest/configuration/#webhook_config).
type alertmanagerWebhook struct {
	name   string
	url    string
	header http.Header
	client *http.Client
}

// receivedMessage is a message in the format of Alertmanager's webhooks.
type receivedMessage struct {
	Version           string          `json:"version"`
	GroupKey          string          `json:"groupKey"`
	TruncatedAlerts   int             `json:"truncatedAlerts"`
	Status            string          `json:"status"`
	Receiver          string          `json:"receiver"`
	GroupLabels       model.LabelSet  `json:"groupLabels"`
	CommonLabels      model.LabelSet  `json:"commonLabels"`
	CommonAnnotations model.LabelSet  `json:"commonAnnotations"`
	ExternalURL       string          `json:"externalURL"`
	Alerts            []receivedAlert `json:"alerts"`
}

// receivedAlert is an alert in the format of Alertmanager's webhooks. The fingerprint is derived from the labels, so that a
// firing alert and its resolution share it.
type receivedAlert struct {
	Status string `json:"status"`
	prometheusAlert
	Fingerprint string `json:"fingerprint"`
}

// The statuses in Alertmanager's format.
const (
	statusFiring   = "firing"
	statusResolved = "resolved"
)

// Send implements Channel.
func (c *alertmanagerWebhook) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(c.message(m))
	if err != nil {
		return err
	}
	r, err := newPost(ctx, c.url, c.header, body)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "Alertmanager (deadman)")
	return do(c.client, r)
}

func (c *alertmanagerWebhook) message(m Message) receivedMessage {
	out := receivedMessage{
		Version: "4", GroupKey: m.Thread(), Status: statusResolved, Receiver: c.name, ExternalURL: m.PublicURL,
		TruncatedAlerts: m.Notification.Alerts - len(m.Alerts), Alerts: []receivedAlert{},
		GroupLabels: model.LabelSet{"topic": model.LabelValue(m.Topic), model.AlertNameLabel: model.LabelValue(ruleNames(m))},
	}
	descriptions := make(map[string]string)
	for _, k := range m.Keys {
		descriptions[k.Rule] = k.Description
	}
	for _, a := range m.Alerts {
		out.Alerts = append(out.Alerts, receivedAlerts(a, m.Closed, descriptions[a.Rule])...)
	}
	for i, a := range out.Alerts {
		if a.Status == statusFiring {
			out.Status = statusFiring
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

// ruleNames returns the rules of a message's alerts: the name of the group for receivers. Names beyond shownRules are
// counted.
func ruleNames(m Message) string {
	var names []string
	for _, c := range m.counts() {
		if !slices.Contains(names, c.Rule) {
			names = append(names, c.Rule)
		}
	}
	text := strings.Join(names[:min(len(names), shownRules)], ", ")
	if more := len(names) - shownRules; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// common removes from all the labels that are missing or different in one.
func common(all, one model.LabelSet) {
	maps.DeleteFunc(all, func(name model.LabelName, value model.LabelValue) bool {
		had, ok := one[name]
		return !ok || had != value
	})
}

// receivedAlerts converts an alert of a rule with a description: a resolving alert becomes the alerts that it closes,
// resolved.
func receivedAlerts(a alerts.Alert, closed map[alerts.ID]alerts.Alert, description string) []receivedAlert {
	if a.Status != alerts.Resolved {
		return []receivedAlert{newReceivedAlert(a, statusFiring, time.Time{}, description)}
	}
	var all []receivedAlert
	for _, id := range a.Closes {
		if fired, ok := closed[id]; ok {
			fired.Text, fired.URL = a.Text, a.URL
			all = append(all, newReceivedAlert(fired, statusResolved, a.DecidedAt, description))
		}
	}
	return all
}

func newReceivedAlert(a alerts.Alert, status string, endsAt time.Time, description string) receivedAlert {
	one := newPrometheusAlert(a, endsAt, description)
	return receivedAlert{Status: status, prometheusAlert: one, Fingerprint: one.Labels.Fingerprint().String()}
}
