package notify

import (
	"fmt"

	"github.com/invopop/jsonschema"

	"deadman/alerts"
	"deadman/internal/configfile"
)

var fileFields = configfile.Table{
	{Name: "zone", Form: configfile.TextForm(), Text: "Time zone of the times in texts, such as Europe/Berlin. Default: UTC."},
	{Name: "channels", Form: configfile.NamedForm(channelFields.Object(), MaxChannels), Text: "The channels, by name."},
	{Name: "routes", Form: configfile.ListForm(routeFields.Object(), MaxRoutes), Text: "The routes: which alerts go to which channels, in this order."},
}

var channelFields = configfile.Table{
	{Name: "kind", Form: configfile.WordForm(kinds...), Required: true, Text: "Kind of the service."},
	{Name: "url", Form: configfile.TextForm(), Text: "URL of the service, if it has no user and no query."},
	{Name: "urls", Form: membersForm(), Text: "URLs of the members of a cluster of Alertmanagers, in place of url."},
	{Name: "url_file", Form: configfile.TextForm(), Text: "File with the URL, on one line; a relative path starts at the folder of this file."},
	{Name: "headers", Form: configfile.HeadersForm(headerFields.Object()), Text: "Headers of each request to webhook, alertmanager and alertmanager-webhook, by name."},
	{Name: "resend_interval", Form: configfile.DurationForm(), Text: "Interval at which an Alertmanager gets the open alerts again, 10s to 1h. Default: 1m."},
	{Name: "secret_file", Form: configfile.TextForm(), Text: "File with the secret that signs the messages of a webhook."},
	{Name: "ack_links", Form: configfile.BoolForm(), Text: "If false, messages have no links that acknowledge alerts. Default: true."},
	{Name: "ack_button", Form: configfile.NameForm(), Text: "Hook that receives presses of the buttons in messages of slack and mattermost. Default: no buttons."},
}

var headerFields = configfile.Table{
	{Name: "file", Form: configfile.TextForm(), Required: true, Text: "File with the value, on one line."},
}

var routeFields = configfile.Table{
	{Name: "name", Form: configfile.TextForm(), Text: "Name of the route in messages. Default: its number."},
	{Name: "rule", Form: configfile.TextForm(), Text: "Pattern of the rule, such as order-*. Default: all rules."},
	{Name: "entity", Form: configfile.TextForm(), Text: "Pattern of the entity. Default: all entities."},
	{Name: "severity", Form: configfile.OneOrListForm(configfile.WordForm(alerts.Severities...), 0), Text: "Severities of the alerts. Default: all."},
	{Name: "labels", Form: configfile.EntriesForm(configfile.TextForm(), 0), Text: "A pattern for each label that the alerts must have."},
	{Name: "to", Form: configfile.TextsForm(), Required: true, Text: "Channels of the alerts."},
	{Name: "continue", Form: configfile.BoolForm(), Text: "If true, later routes are evaluated too. Default: false."},
	{Name: "group_by", Form: groupForm(), Text: "Fields and labels that the alerts of a message share; []: one message for all. Default: rule."},
	{Name: "group_wait", Form: configfile.DurationForm(), Text: "Time in which alerts are collected for one message, up to 1h. Default: 10s."},
	{
		Name: "max_per_hour", Form: configfile.NumberForm(1, maxPerHour),
		Text: fmt.Sprintf("Messages an hour to each channel; further alerts wait for the next message. Default: %d.", defaultPerHour),
	},
}

func membersForm() *jsonschema.Schema {
	s := configfile.TextsForm()
	s.AnyOf[1].MaxItems = new(uint64(maxMembers))
	return s
}

// groupForm is the form of group_by, which may be an empty list.
func groupForm() *jsonschema.Schema {
	s := configfile.TextsForm()
	s.AnyOf[1].MinItems = nil
	return s
}

// Schema returns the JSON Schema (2020-12) of a file of channels and routes, for editors.
func Schema() ([]byte, error) {
	return configfile.Schema(fileFields.Object(), "notify", "Notification channels and routes of deadman")
}
