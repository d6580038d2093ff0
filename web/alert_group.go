package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/configfile"
)

// OpenAlertCounts counts open alerts.
type OpenAlertCounts struct {
	Unacknowledged int64            `json:"unacknowledged" doc:"Number of open alerts that are not acknowledged."`
	Acknowledged   int64            `json:"acknowledged" doc:"Number of open alerts whose jobs are acknowledged."`
	Severities     map[string]int64 `json:"severities" nullable:"false" doc:"Number of unacknowledged alerts by severity."`
	Outages        int64            `json:"outages" doc:"Number of unacknowledged alerts that are about outages. They cannot be acknowledged."`
	Losses         int64            `json:"losses" doc:"Number of open alerts about lost data. They cannot be acknowledged: close them."`
	OldestAt       time.Time        `json:"oldest_at,omitzero" doc:"Time at which the oldest unacknowledged alert was raised. Absent if there is none."`
}

// AlertGroup counts the open alerts with the same value of a field.
type AlertGroup struct {
	Value string `json:"value" doc:"Value of the field. Empty for alerts without the label."`
	OpenAlertCounts
}

// AlertGroups counts the open alerts by the values of a field.
type AlertGroups struct {
	By    string          `json:"by" doc:"Field of the groups." example:"rule"`
	Total OpenAlertCounts `json:"total" doc:"Counts of all groups."`
	Items []AlertGroup    `json:"items" nullable:"false" doc:"The groups: the highest severity of unacknowledged alerts first, then the most alerts."`
	// Omitted keeps the document small: a label may have as many values as there are alerts.
	Omitted int    `json:"omitted,omitempty" doc:"Number of further groups, which items leaves out. Their alerts are in total."`
	Note    string `json:"note,omitempty" doc:"Present if no open alert has the label of the groups: names the labels of the rules."`
}

// maxAlertGroups is the largest number of groups in a response.
const maxAlertGroups = 1000

// OpenAlertFilter selects open alerts by their fields.
type OpenAlertFilter struct {
	ListFilter
	Status   string     `query:"status" enum:"firing,resolved,undetermined,gave_up,expired" doc:"Filter by status."`
	Severity string     `query:"severity" enum:"info,warning,error,critical" doc:"Filter by severity."`
	Label    identifier `query:"label" doc:"Filter by a label, as NAME=VALUE, or by the step, as step=NAME. Without a value: alerts without the label." example:"team=fulfilment"`
	Through  alerts.ID  `query:"through" format:"uuid" doc:"Only alerts up to this ID, in order of time: those raised before a client read the list."`
}

// filter returns the filter of the open alerts. The error is for the client.
func (o OpenAlertFilter) filter() (futurejobs.Filter, error) {
	f := o.ListFilter.filter()
	f.Open, f.Status, f.Severity, f.Through = true, alerts.Status(o.Status), alerts.Severity(o.Severity), o.Through
	var err error
	f.Label, f.LabelValue, err = splitLabel("query.label", o.Label)
	return f, err
}

// splitLabel splits a label given as NAME=VALUE.
func splitLabel(location string, label identifier) (name, value string, err error) {
	if label == "" {
		return "", "", nil
	}
	name, value, found := strings.Cut(string(label), "=")
	if !found || name == "" {
		return "", "", refused(location, "%q is not NAME=VALUE; write, for example, team=fulfilment", label)
	}
	return name, value, nil
}

// alertGroupAPI has the operation that counts open alerts.
type alertGroupAPI struct {
	lists AlertReader
	rules Rules
	now   func() time.Time
}

func (a *alertGroupAPI) register(all *operations) {
	register(all, operation{
		ID: "list-alert-groups", Tag: tagAlerts, Method: "GET", Path: "/alerts/groups", Summary: "count open alerts by rule, severity, entity, status or label",
		Description: "Counts all open alerts, whatever their number: the newest alert of each pending job that has raised one, of each ongoing outage, and of each loss of data that no actor has closed.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.list))
}

// alertGroupIn selects and groups the open alerts.
type alertGroupIn struct {
	By string `query:"by" default:"rule" maxLength:"512" doc:"Field of the groups: rule, severity, entity, status, key, step, or the name of a label."`
	OpenAlertFilter
}

func (a *alertGroupAPI) list(ctx context.Context, in *alertGroupIn) (AlertGroups, error) {
	f, err := in.filter()
	if err != nil {
		return AlertGroups{}, err
	}
	label := in.By
	if slices.Contains(countedFields, in.By) {
		label = ""
	}
	f.Now = a.now()
	counts, err := a.lists.CountOpenAlerts(ctx, filterVisible(ctx, f), label)
	if err != nil {
		return AlertGroups{}, err
	}
	out := groupCounts(in.By, counts)
	if label == "" || slices.Contains(alerts.Fields, label) {
		return out, nil
	}
	if len(out.Items) == 0 || len(out.Items) == 1 && out.Items[0].Value == "" {
		out.Note, err = a.note(ctx, label)
	}
	return out, err
}

// maxLabelsShown is the number of labels that a note names.
const maxLabelsShown = 20

// note tells that no open alert has a label, and names the labels of the rules. Labels come and go with the open alerts,
// so an unknown label is no error.
func (a *alertGroupAPI) note(ctx context.Context, label string) (string, error) {
	all, err := a.rules.List(ctx)
	if err != nil {
		return "", err
	}
	names := make(map[string]bool)
	for _, l := range all {
		if principalOf(ctx).canSee(l.Name) {
			for name := range l.Document.Labels {
				names[name] = true
			}
		}
	}
	known := slices.Sorted(maps.Keys(names))
	note := "no open alert has the label " + label
	if near := configfile.Suggest(label, slices.Concat(known, alerts.Fields)); near != "" && near != label {
		note += "; did you mean " + near + "?"
	}
	switch more := len(known) - maxLabelsShown; {
	case len(known) == 0:
		note += "; no rule has labels"
	case more > 0:
		note += fmt.Sprintf("; labels of rules: %s and %d more", strings.Join(known[:maxLabelsShown], ", "), more)
	default:
		note += "; labels of rules: " + strings.Join(known, ", ")
	}
	return note, nil
}

// countedFields are the fields of an alert that all counts have.
var countedFields = []string{"rule", "severity", "entity", "status"}

// groupCounts adds up counts by the value of a field.
func groupCounts(by string, counts []futurejobs.OpenAlerts) AlertGroups {
	out := AlertGroups{By: by, Items: []AlertGroup{}, Total: OpenAlertCounts{Severities: map[string]int64{}}}
	places := make(map[string]int)
	for _, c := range counts {
		value := valueOf(by, c)
		i, found := places[value]
		if !found {
			i = len(out.Items)
			places[value] = i
			out.Items = append(out.Items, AlertGroup{value, OpenAlertCounts{Severities: map[string]int64{}}})
		}
		out.Items[i].add(c)
		out.Total.add(c)
	}
	slices.SortFunc(out.Items, func(a, b AlertGroup) int {
		return cmp.Or(cmp.Compare(b.highest(), a.highest()), cmp.Compare(b.Unacknowledged, a.Unacknowledged), cmp.Compare(a.Value, b.Value))
	})
	if n := len(out.Items); n > maxAlertGroups {
		out.Items, out.Omitted = out.Items[:maxAlertGroups], n-maxAlertGroups
	}
	return out
}

// valueOf returns the field that counts are grouped by.
func valueOf(by string, c futurejobs.OpenAlerts) string {
	switch by {
	case "rule":
		return c.Rule
	case "severity":
		return string(c.Severity)
	case "entity":
		return c.Entity
	case "status":
		return string(c.Status)
	}
	return c.LabelValue
}

func (n *OpenAlertCounts) add(c futurejobs.OpenAlerts) {
	if c.Acknowledged {
		n.Acknowledged += c.Count
		return
	}
	n.Unacknowledged += c.Count
	n.Severities[string(c.Severity)] += c.Count
	if c.Outage {
		n.Outages += c.Count
	}
	if c.Loss {
		n.Losses += c.Count
	}
	if oldest := c.Oldest.UTC(); n.OldestAt.IsZero() || oldest.Before(n.OldestAt) {
		n.OldestAt = oldest
	}
}

// highest returns the number of the highest severity of unacknowledged alerts; 0: there are none.
func (n *OpenAlertCounts) highest() (most int16) {
	for severity := range n.Severities {
		most = max(most, alerts.Severity(severity).Number())
	}
	return most
}
