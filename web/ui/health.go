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

// healthView is whether deadman itself is all right: what has to be in order, the load, what it
// reads, asks and tells, when it was blind, and the nodes.
type healthView struct {
	web.Readiness
	Sentence string
	Narrow   bool // the visitor may see some rules alone, and so no more than this
	Load     *chart
	Streams  []stream
	Sources  []web.Source
	Outages  []outage
	Channels []web.Channel
	Blind    []gapView
	Nodes    []node
	Free     string // shards that no node holds
}

// healthRows is how much of what is over is shown.
const healthRows = "20"

// blindRows is among how many of the newest remarks times of blindness are looked for.
const blindRows = "200"

func (u *UI) health(c client, _ *http.Request) (view, error) {
	var v healthView
	var err error
	if v.Readiness, err = c.readiness(); err != nil {
		return view{}, err
	}
	err = v.ask(c, u.Now())
	problem := new(web.Problem)
	if v.Narrow = errors.As(err, &problem) && problem.Status == http.StatusForbidden; err != nil && !v.Narrow {
		return view{}, err
	}
	v.Sentence = v.sentence()
	return view{Title: "Health", Body: v, Ill: !v.Fine}, nil
}

// ask asks for all that the page shows.
func (v *healthView) ask(c client, now time.Time) error {
	var nodes web.Nodes
	if err := c.get("/nodes", nil, &nodes); err != nil {
		return err
	}
	v.Free = ranges(nodes.FreeShards)
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
	if v.Outages, err = c.outages(now); err != nil {
		return err
	}
	if v.Blind, err = c.blindnesses(now); err != nil {
		return err
	}
	v.Load, err = c.load(now)
	return err
}

// all is the first page of a list, as long as one may be.
func all[T any](c client, path string) ([]T, error) {
	var page web.Page[T]
	err := c.get(path, url.Values{"limit": {"500"}}, &page)
	return page.Items, err
}

// sentence is how it is, in one.
func (v *healthView) sentence() string {
	var names []string
	for _, condition := range v.Conditions {
		if !condition.OK {
			names = append(names, strings.ReplaceAll(condition.Name, "_", " "))
		}
	}
	switch broken := strings.Join(names, ", "); {
	case !v.Ready:
		return "This node can't serve: " + broken
	case !v.Fine:
		return "Not all is in order: " + broken
	case v.Narrow:
		return "All is in order"
	}
	return "All is in order: " + v.standing()
}

// standing is who works, and how far.
func (v *healthView) standing() string {
	parts := []string{count(len(v.Nodes), "node")}
	behind := slices.IndexFunc(v.Streams, func(s stream) bool { return s.State != web.StreamRead })
	switch {
	case behind >= 0:
		parts = append(parts, "stream "+v.Streams[behind].Name+" is "+v.Streams[behind].State)
	case len(v.Streams) > 0:
		parts = append(parts, count(len(v.Streams), "stream")+" read to the end")
	}
	if lag := v.lag(); lag > lagShown {
		return strings.Join(append(parts, "the oldest look is "+roughly(lag)+" overdue"), ", ")
	}
	return strings.Join(append(parts, "nothing overdue"), ", ")
}

// lag is that of the node that is behind for longest.
func (v *healthView) lag() (longest time.Duration) {
	for _, n := range v.Nodes {
		longest = max(longest, seconds(n.Lag))
	}
	return longest
}

// WhereToLook is where more is to be seen about a condition; empty: nowhere.
func (healthView) WhereToLook(condition string) string { return whereToLook[condition] }

var whereToLook = map[string]string{
	"nats": "#streams", "leases": "#nodes", "intake": "#streams", "streams": "#streams", "ticks": "/rules", "sweep": "/jobs?due=overdue", "due": "/jobs?due=overdue", "rules": "/rules", "fit": "#nodes",
	"relay": "/alerts", "alerts_stream": "/alerts", "restore": "/alerts", "sources": "#sources", "notify": "#channels", "serving": "#nodes",
}

// stream is a stream as the page shows it.
type stream struct{ web.Stream }

// Left is how many messages are to be looked at.
func (s stream) Left() string {
	if s.Behind == nil {
		return "not known"
	}
	return number(*s.Behind)
}

// Late is since when it was not read to its end.
func (s stream) Late() string {
	switch {
	case s.Lag == nil:
		return "never read"
	case seconds(*s.Lag) <= lagShown:
		return ""
	}
	return roughly(seconds(*s.Lag))
}

// Kind is how its state is shown.
func (s stream) Kind() string {
	switch s.State {
	case web.StreamRead:
		return "ok"
	case web.StreamBehind:
		return "warning"
	}
	return "error"
}

// Begun is how many jobs its events began.
func (s stream) Begun() string { return number(s.Created) }

// Named are the first of its rules, and More how many others there are.
func (s stream) Named() []string { return s.Rules[:min(len(s.Rules), 3)] }

// More is how many rules are told by it beside those that are named.
func (s stream) More() int { return s.RuleCount - len(s.Named()) }

// outage is an outage as the page shows it.
type outage struct {
	web.Outage
	For string // how long it lasted, or lasts
}

// outages are those that go on, and the newest of those that are over.
func (c client) outages(now time.Time) (shown []outage, err error) {
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

// gapView is a time in which something did not go on, or what came in may be lost.
type gapView struct {
	What  string
	From  time.Time
	For   string // how long it was; empty: it is not over, or not known
	Open  bool
	Jobs  int
	Alert alerts.ID
}

// blindnesses are the times in which the sweep or the intake stood still, newest first. They are
// what the node said of itself.
func (c client) blindnesses(now time.Time) (found []gapView, err error) {
	var said web.Page[web.Alert]
	if err := c.get("/alerts", url.Values{"rule": {alerts.SystemRule}, "limit": {blindRows}}, &said); err != nil {
		return nil, err
	}
	closed := make(map[alerts.ID]bool)
	for _, a := range said.Items {
		if a.Step != "blind" || closed[a.ID] {
			continue
		}
		for _, id := range a.Closes {
			closed[id] = true
		}
		b := gapView{From: a.Since, Jobs: a.Count, Alert: a.ID}
		kind, stream, _ := strings.Cut(a.Key, "/")
		switch {
		case kind == "stream":
			b.What = "events of " + stream + " may be lost"
		case kind == "intake":
			b.What = "stream " + stream + " was not read"
		default:
			b.What = "jobs were not looked at"
		}
		if b.Open = kind != "stream" && a.Status == alerts.Firing; b.Open {
			b.For = roughly(now.Sub(a.Since))
		} else if kind != "stream" {
			b.For = roughly(a.DecidedAt.Sub(a.Since))
		}
		found = append(found, b)
	}
	return found, nil
}

// node is a node as the page shows it.
type node struct{ web.Node }

// Behind is how long its longest overdue job is overdue; empty: none is.
func (n node) Behind() string {
	if seconds(n.Lag) <= lagShown {
		return ""
	}
	return roughly(seconds(n.Lag))
}

// Holds are the shards that it holds.
func (n node) Holds() string { return ranges(n.Shards) }

// Until is when the first of its leases ends, unless it renews it.
func (n node) Until() (first time.Time) {
	for _, l := range n.Leases {
		if first.IsZero() || l.ExpiresAt.Before(first) {
			first = l.ExpiresAt
		}
	}
	return first
}

// ranges are numbers in order with those that follow each other put together: "0–7, 9".
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
