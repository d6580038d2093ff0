// Package notify turns alerts into notifications: it routes alerts, groups them into messages, and sends the messages
// to channels until they are accepted.
package notify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"deadman/alerts"
	"deadman/internal/configfile"
	"deadman/internal/operatorfiles"
	"deadman/internal/timezones"
)

// The limits of a channels file, and the defaults of a route.
const (
	MaxChannels = 100
	MaxRoutes   = 500

	defaultWait    = 10 * time.Second
	maxWait        = time.Hour
	defaultPerHour = 60
	maxPerHour     = 3600
)

// Config holds the channels and routes of a file.
type Config struct {
	Channels []Spec // sorted by name
	Routes   []Route
	Zone     *time.Location // of the times in texts
}

// Route assigns alerts to channels, and groups them into messages.
type Route struct {
	Name     string // "route 3" if the third has no name
	Match    alerts.Match
	Severity []string // any of them; nil: all
	To       []string // names of channels
	Continue bool     // later routes are evaluated too
	GroupBy  []string // fields with equal values in all alerts of a message
	Wait     time.Duration
	PerHour  int
}

// takes reports whether a route matches an alert.
func (r Route) takes(a alerts.Alert) bool {
	return (r.Severity == nil || slices.Contains(r.Severity, string(a.Severity))) && r.Match.Matches(a)
}

// topic returns the group of an alert: its values of the GroupBy fields.
func (r Route) topic(a alerts.Alert) string {
	parts := make([]string, len(r.GroupBy))
	for i, name := range r.GroupBy {
		parts[i] = name + "=" + a.Field(name)
	}
	return strings.Join(parts, " ")
}

// Load reads the file at path. The error is configfile.Problems with all problems, unless the file can't be read at
// all.
func Load(path string) (Config, error) {
	data, err := operatorfiles.Read(path)
	if err != nil {
		return Config{}, err
	}
	return Parse(data, path)
}

// CheckButtons returns an error for a channel whose buttons no webhook receives.
func (c Config) CheckButtons(isHook func(name string) bool) error {
	var wrong []error
	for _, s := range c.Channels {
		if s.AckButton != "" && !isHook(s.AckButton) {
			wrong = append(wrong, fmt.Errorf("channel %s: ack_button names the webhook %s, and the file of --hooks has none of that name; add it there, or leave ack_button out", s.Name, s.AckButton))
		}
	}
	return errors.Join(wrong...)
}

// Idle describes the entries without effect: routes that no alert reaches, and channels that get no messages.
func (c Config) Idle() (found []string) {
	used := make(map[string]bool)
	for i, r := range c.Routes {
		if j := slices.IndexFunc(c.Routes[:i], func(before Route) bool { return !before.Continue && before.covers(r) }); j >= 0 {
			found = append(found, fmt.Sprintf("%s is never reached: %s takes all of its alerts and does not continue", r.Name, c.Routes[j].Name))
			continue
		}
		for _, name := range r.To {
			used[name] = true
		}
	}
	for _, s := range c.Channels {
		if !used[s.Name] && s.Kind != Webhook {
			found = append(found, fmt.Sprintf("channel %s gets no messages: no route that is reached names it", s.Name))
		}
	}
	return found
}

// covers reports whether a route matches all alerts of another one, as far as their texts show it.
func (r Route) covers(o Route) bool {
	if r.Severity != nil && (o.Severity == nil || slices.ContainsFunc(o.Severity, func(s string) bool { return !slices.Contains(r.Severity, s) })) {
		return false
	}
	for name, pattern := range r.Match {
		if pattern != "*" && pattern != o.Match[name] {
			return false
		}
	}
	return true
}

// Parse parses a file of channels and routes. It also reads the files named in it, relative to its folder.
func Parse(data []byte, file string) (Config, error) {
	var c Config
	err := configfile.Read(data, file, func(v configfile.Value) {
		fields := v.In(fileFields)
		c.readZone(fields["zone"])
		c.readChannels(fields["channels"])
		c.readRoutes(fields["routes"]) // they refer to channels
	})
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// readZone reads the time zone of the texts; UTC by default.
func (c *Config) readZone(v configfile.Value) {
	c.Zone = time.UTC
	if !v.Present() {
		return
	}
	name := v.Text()
	if name == "" {
		return // its problem is reported
	}
	zone, err := timezones.Parse(name)
	if err != nil {
		v.Problem("%s", err)
		return
	}
	c.Zone = zone
}

func (c *Config) readChannels(v configfile.Value) {
	if !v.Present() {
		return
	}
	for _, one := range v.Entries("a name for each channel") {
		c.Channels = append(c.Channels, readChannel(one))
		if wrong := configfile.CheckName(one.Name); wrong != "" {
			one.ProblemAtName("%s", wrong)
		}
	}
	if len(c.Channels) > MaxChannels {
		v.Problem("there are %d channels, and the limit is %d; leave out those that no route uses", len(c.Channels), MaxChannels)
	}
	slices.SortFunc(c.Channels, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
}

func readChannel(v configfile.Value) Spec {
	fields := v.In(channelFields)
	s := Spec{
		Name: v.Name, Kind: readKind(fields["kind"]), URL: fields["url"].Text(), Secret: fields["secret_file"].Secret(operatorfiles.Read),
		NoAckLinks: fields["ack_links"].Present() && !fields["ack_links"].Bool(), AckButton: fields["ack_button"].Text(),
		Headers: readHeaders(fields["headers"]),
	}
	fromFile := fields["url_file"].Present()
	if fromFile {
		s.URL = fields["url_file"].Secret(operatorfiles.Read)
	}
	s.readCluster(fields)
	if v.HasProblem() {
		return s
	}
	if problem := s.check(fromFile); problem != "" {
		v.ProblemAtName("%s", problem)
	}
	return s
}

// readCluster reads the fields of Alertmanagers.
func (s *Spec) readCluster(fields map[string]configfile.Value) {
	if urls := fields["urls"]; urls.Present() {
		s.URLs = urls.Texts()
		switch {
		case fields["url"].Present() || fields["url_file"].Present():
			urls.ProblemAtName("there is a url, too; keep one of the two")
		case len(s.URLs) == 0 || len(s.URLs) > maxMembers:
			urls.Problem("a cluster has 1 to %d URLs, and there are %d; write those of its members", maxMembers, len(s.URLs))
		}
	}
	if interval := fields["resend_interval"]; interval.Present() {
		if s.Resend = interval.Duration(defaultResend, maxResend); s.Resend < minResend {
			interval.Problem("the interval is below %s; write a longer one, or leave it out for %s", model.Duration(minResend), model.Duration(defaultResend))
		}
	}
}

// readHeaders reads headers with values in files.
func readHeaders(v configfile.Value) map[string]string {
	return configfile.ReadHeaders(v, func(one configfile.Value) (string, bool) {
		file := one.In(headerFields)["file"].Require("name a file that holds the value of the header")
		return file.Secret(operatorfiles.Read), file.Present()
	})
}

// readKind rejects an unknown kind at its own position, so that it is reported in addition to other problems.
func readKind(v configfile.Value) Kind {
	kind := Kind(v.Text())
	if kind == "" || slices.Contains(kinds, kind) {
		return kind
	}
	v.Problem("there is no kind %q; it is one of %s", kind, choices())
	return kind
}

func (c *Config) readRoutes(v configfile.Value) {
	items := v.List("route")
	if len(items) > MaxRoutes {
		v.Problem("there are %d routes, and the limit is %d; match more with one, by * or by labels", len(items), MaxRoutes)
		return
	}
	names := make(map[string]bool)
	for i, item := range items {
		route := c.readRoute(item, i)
		if names[route.Name] {
			item.Problem("another route is %q already; take another name", route.Name)
		}
		names[route.Name] = true
		c.Routes = append(c.Routes, route)
	}
}

func (c *Config) readRoute(v configfile.Value, i int) Route {
	fields := v.In(routeFields)
	route := Route{
		Name: fmt.Sprintf("route %d", i+1), Match: readMatch(fields), Severity: readSeverities(fields["severity"]),
		To: fields["to"].Require("name at least one channel").Texts(), Continue: fields["continue"].Bool(), GroupBy: []string{"rule"},
		Wait: fields["group_wait"].Duration(defaultWait, maxWait), PerHour: fields["max_per_hour"].Number(defaultPerHour, maxPerHour),
	}
	if name := fields["name"]; name.Present() {
		route.Name = name.Text()
	}
	switch groupBy := fields["group_by"]; {
	case groupBy.Empty():
		route.GroupBy = nil // one message for all
	case groupBy.Present():
		route.GroupBy = groupBy.Texts()
	}
	c.mustKnow(fields["to"], route.To)
	return route
}

// readMatch returns the patterns of a route.
func readMatch(fields map[string]configfile.Value) alerts.Match {
	match := alerts.Match{}
	for _, name := range []string{"rule", "entity"} {
		if fields[name].Present() {
			match[name] = fields[name].Text()
		}
	}
	if labels := fields["labels"]; labels.Present() {
		for _, label := range labels.Entries("a pattern for each label") {
			if slices.Contains(alerts.Fields, label.Name) {
				label.ProblemAtName("%q is a field of every alert and not a label; the routes know rule, entity and severity", label.Name)
			}
			match[label.Name] = label.Text()
		}
	}
	return match
}

func readSeverities(v configfile.Value) []string {
	given := v.Texts()
	for _, s := range given {
		if s != "" && !alerts.Severity(s).Valid() {
			v.Problem("%q is no severity; there are info, warning, error and critical", s)
		}
	}
	return given
}

// mustKnow rejects unknown channels.
func (c *Config) mustKnow(v configfile.Value, to []string) {
	names := make([]string, len(c.Channels))
	for i, channel := range c.Channels {
		names[i] = channel.Name
	}
	for _, name := range to {
		if name == "" || slices.Contains(names, name) {
			continue
		}
		hint := "describe it under channels"
		if near := configfile.Suggest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		v.Problem("there is no channel %q; %s", name, hint)
	}
}
