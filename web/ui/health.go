package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/web"
)

// healthView is the health page: conditions, load, streams, sources, channels, monitoring gaps and nodes.
type healthView struct {
	web.Readiness
	Sentence string
	Narrow   bool // the visitor's token is limited to some rules, so the rest is hidden
	Load     *chart
	Streams  []stream
	Sources  []web.Source
	Outages  []outage
	Channels []web.Channel
	Blind    []gapView
	Nodes    []node
	Free     string // shards without a node
	Lost     string // sentence about lost data; empty: no such alert is open
}

// PostsEvents reports whether a rule posts events of stored schedules to a channel.
func (v healthView) PostsEvents() bool {
	return slices.ContainsFunc(v.Channels, func(c web.Channel) bool { return len(c.EventRules) > 0 })
}

// healthRows is the number of closed outages shown.
const healthRows = "20"

// blindRows is the number of system alerts searched for monitoring gaps.
const blindRows = "200"

func (u *UI) health(c client, _ *http.Request) (view, error) {
	var v healthView
	var err error
	if v.Readiness, err = (homeClient{c}).readiness(); err != nil {
		return view{}, err
	}
	err = v.load(c, u.Now())
	problem := new(web.Problem)
	if v.Narrow = errors.As(err, &problem) && problem.Status == http.StatusForbidden; err != nil && !v.Narrow {
		return view{}, err
	}
	v.Sentence = v.sentence()
	return view{Title: "Health", Body: v, Health: healthStyle(v.Healthy)}, nil
}

// load reads the data of the page.
func (v *healthView) load(c client, now time.Time) error {
	var nodes web.Nodes
	if err := c.get("/nodes", nil, &nodes); err != nil {
		return err
	}
	v.Free = ranges(nodes.FreeShards)
	var open web.AlertGroups
	if err := c.get(alertsAt+"/groups", url.Values{"rule": {alerts.SystemRule}}, &open); err != nil {
		return err
	}
	var err error
	if v.Lost, err = c.lossSentence(open.Total); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		v.Nodes = append(v.Nodes, node{n})
	}
	streams, err := all[web.Stream](c, "/streams")
	if err != nil {
		return err
	}
	for _, s := range streams {
		v.Streams = append(v.Streams, stream{s})
	}
	if v.Sources, err = all[web.Source](c, "/sources"); err != nil {
		return err
	}
	if v.Channels, err = all[web.Channel](c, "/channels"); err != nil {
		return err
	}
	if v.Outages, err = (healthClient{c}).outages(now); err != nil {
		return err
	}
	if v.Blind, err = (healthClient{c}).monitoringGaps(now); err != nil {
		return err
	}
	v.Load, err = c.load(now)
	return err
}

// lossSentence returns the sentence about open alerts about lost data; empty: there are none.
func (c client) lossSentence(open web.OpenAlertCounts) (string, error) {
	if open.Losses == 0 {
		return "", nil
	}
	var page web.Page[web.Alert]
	err := c.get(alertsAt, web.RestoreAlerts(), &page)
	return web.LossSentence(page.Items), err
}

// all reads the first page of a list, at the largest size.
func all[T any](c client, path string) ([]T, error) {
	var page web.Page[T]
	err := c.get(path, url.Values{"limit": {"500"}}, &page)
	return page.Items, err
}

// sentence summarizes the health in one sentence.
func (v *healthView) sentence() string {
	sentence := v.Readiness.Sentence(v.Lost)
	if !v.Healthy || v.Narrow {
		return sentence
	}
	return sentence + ": " + v.summary()
}

// summary summarizes the nodes, the streams and the lag.
func (v *healthView) summary() string {
	parts := []string{count(len(v.Nodes), "node")}
	behind := slices.IndexFunc(v.Streams, func(s stream) bool { return s.State != web.StreamUpToDate })
	switch {
	case behind >= 0:
		parts = append(parts, "stream "+v.Streams[behind].Title()+" is "+v.Streams[behind].State)
	case len(v.Streams) > 0:
		parts = append(parts, count(len(v.Streams), "stream")+" up to date")
	}
	if lag := v.lag(); lag > lagShown {
		return strings.Join(append(parts, "oldest check overdue by "+roughly(lag)), ", ")
	}
	return strings.Join(append(parts, "no overdue checks"), ", ")
}

// lag returns the largest lag of the nodes.
func (v *healthView) lag() (longest time.Duration) {
	for _, n := range v.Nodes {
		longest = max(longest, seconds(n.Lag))
	}
	return longest
}

// WhereToLook returns the address with details of a condition, or an empty string.
func (healthView) WhereToLook(condition string) string { return whereToLook[condition] }

var whereToLook = map[string]string{
	"nats": "#streams", "leases": "#nodes", "ingest": "#streams", "streams": "#streams", "ticks": "/rules", "sweep": "/jobs?due=now", "due": "/jobs?due=now", "rules": "/rules", "node": "#nodes",
	"relay": "/alerts", "alerts_stream": "/alerts", "restore": "/alerts", "sources": "#sources", "notifications": "#channels", "serving": "#nodes",
}

// stream is a stream on the health page.
type stream struct{ web.Stream }

// Title returns the name of the stream, with its line if that is for the rules of tenants.
func (s stream) Title() string {
	if s.Line == web.LineTenants {
		return s.Name + " (tenants)"
	}
	return s.Name
}

// Left formats the number of unread messages.
func (s stream) Left() string {
	if s.LagMessages == nil {
		return "unknown"
	}
	return number(*s.LagMessages)
}

// LagText formats the lag of the stream. It is empty if the lag is small.
func (s stream) LagText() string {
	switch {
	case s.Lag == nil:
		return "never read"
	case seconds(*s.Lag) <= lagShown:
		return ""
	}
	return roughly(seconds(*s.Lag))
}

// Kind returns the style of the stream's state.
func (s stream) Kind() string {
	switch s.State {
	case web.StreamUpToDate:
		return "ok"
	case web.StreamBehind:
		return "warning"
	}
	return "error"
}

// Begun formats the number of jobs that its events created.
func (s stream) Begun() string { return number(s.Created) }

// Named returns the first of its rules. More counts the others.
func (s stream) Named() []string { return s.Rules[:min(len(s.Rules), 3)] }

// More counts the rules of the stream beyond the named ones.
func (s stream) More() int { return s.RuleCount - len(s.Named()) }

// outage is an outage on the health page.
type outage struct {
	web.Outage
	For string // its duration so far
}

// healthClient reads outages and monitoring gaps.
type healthClient struct{ client }

// outages returns the open outages, then the newest closed ones.
func (c healthClient) outages(now time.Time) (shown []outage, err error) {
	seen := make(map[int64]bool)
	for _, query := range []url.Values{{"open": {"true"}, "limit": {"500"}}, {"limit": {healthRows}}} {
		var page web.Page[web.Outage]
		if err := c.get("/outages", query, &page); err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			if until := cmp.Or(o.ClosedAt, now); !seen[o.ID] {
				seen[o.ID] = true
				shown = append(shown, outage{o, roughly(until.Sub(o.OpenedAt))})
			}
		}
	}
	return shown, nil
}

// gapView is a monitoring gap, or a possible loss of events.
type gapView struct {
	What  string
	From  time.Time
	Until time.Time // zero: still open or unknown
	For   string    // duration so far; empty: unknown
	Open  bool
	Lost  bool // events may be lost
	Jobs  int
	Alert alerts.ID
}

// gapSteps are the steps of system alerts that report a time in which jobs were not checked or events not read.
var gapSteps = []string{alerts.GapStep, "lost", "recreated"}

// monitoringGaps returns the monitoring gaps of sweep and ingest, newest first, from the node's system alerts.
func (c healthClient) monitoringGaps(now time.Time) (found []gapView, err error) {
	var page web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"rule": {alerts.SystemRule}, "limit": {blindRows}}, &page); err != nil {
		return nil, err
	}
	closed := make(map[alerts.ID]bool)
	for _, a := range page.Items {
		if !slices.Contains(gapSteps, a.Step) || closed[a.ID] {
			continue
		}
		for _, id := range a.Closes {
			closed[id] = true
		}
		b := gapView{From: a.Since, Jobs: a.Count, Alert: a.ID}
		kind, stream, _ := strings.Cut(a.Key, "/")
		switch {
		case kind == "stream":
			b.What = "events of stream " + stream + " may be lost"
		case kind == "ingest":
			b.What = "stream " + stream + " was not read"
		default:
			b.What = "jobs were not checked"
		}
		switch b.Lost = kind == "stream"; {
		case b.Lost:
		case a.Status == alerts.Firing:
			b.Open, b.For = true, roughly(now.Sub(a.Since))
		default:
			b.Until, b.For = a.DecidedAt, roughly(a.DecidedAt.Sub(a.Since))
		}
		found = append(found, b)
	}
	return found, nil
}

// node is a node on the health page.
type node struct{ web.Node }

// Behind formats how long its oldest due job is overdue. It is empty if the lag is small.
func (n node) Behind() string {
	if seconds(n.Lag) <= lagShown {
		return ""
	}
	return roughly(seconds(n.Lag))
}

// Holds formats its shards.
func (n node) Holds() string { return ranges(n.Shards) }

// Until returns when the first of its leases expires unless renewed.
func (n node) Until() (first time.Time) {
	for _, l := range n.Leases {
		if first.IsZero() || l.ExpiresAt.Before(first) {
			first = l.ExpiresAt
		}
	}
	return first
}

// ranges formats sorted numbers with runs merged: "0–7, 9".
func ranges(numbers []int16) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(int(numbers[i]))
		if last > i {
			part = fmt.Sprintf("%d–%d", numbers[i], numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}
