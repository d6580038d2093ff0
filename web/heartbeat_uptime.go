package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// maxHeartbeatPeriods bounds the ended jobs that are read for the uptimes of a page. The uptime before the oldest of them is
// unknown.
const maxHeartbeatPeriods = 5000

// sweepTopic is the key of alerts about monitoring gaps of the checks of jobs.
const sweepTopic = "sweep"

// timeSpan is the time from From to To, without To.
type timeSpan struct{ From, To time.Time }

// within returns the part of a span in another one; the zero span if there is none.
func (s timeSpan) within(o timeSpan) timeSpan {
	if s.From.Before(o.From) {
		s.From = o.From
	}
	if s.To.After(o.To) {
		s.To = o.To
	}
	if !s.From.Before(s.To) {
		return timeSpan{}
	}
	return s
}

func (s timeSpan) length() time.Duration { return s.To.Sub(s.From) }

// monitoringGaps are the times in which the state of keys is unknown.
type monitoringGaps struct {
	since  time.Time  // gaps before are unknown
	sweep  []timeSpan // jobs were not checked
	ingest []timeSpan // a stream was not read, or jobs were not checked
}

// of returns the gaps of a rule.
func (g monitoringGaps) of(rule countedHeartbeat) []timeSpan {
	if rule.streams {
		return g.ingest
	}
	return g.sweep
}

// monthsOf returns the starts of this month and of the last one.
func monthsOf(now time.Time) [2]time.Time {
	this := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return [2]time.Time{this, this.AddDate(0, -1, 0)}
}

// maxGapAlerts is the number of pages of system alerts that are searched for gaps.
const maxGapAlerts = 10

// readGaps reads the monitoring gaps since the start of the last month from the alerts of the nodes, which are kept for a
// time; 0: for ever.
func readGaps(ctx context.Context, lists AlertReader, kept time.Duration, now time.Time) (g monitoringGaps, err error) {
	g.since = monthsOf(now)[1]
	if from := now.Add(-kept); kept > 0 && from.After(g.since) {
		g.since = from
	}
	closed := make(map[alerts.ID]bool)
	f := futurejobs.Filter{Rule: alerts.SystemRule, After: g.since, Limit: futurejobs.MaxLimit}
	for range maxGapAlerts {
		page, err := lists.Alerts(ctx, f)
		if err != nil {
			return g, err
		}
		for _, a := range page.Items {
			g.add(a.Alert, closed, now)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			g.sweep, g.ingest = merged(g.sweep), merged(g.ingest)
			return g, nil
		}
		g.since = page.Items[len(page.Items)-1].DecidedAt
	}
	g.sweep, g.ingest = merged(g.sweep), merged(g.ingest)
	return g, nil
}

// add adds the gap of an alert. Alerts are added newest first; closed has the alerts that newer ones close.
func (g *monitoringGaps) add(a alerts.Alert, closed map[alerts.ID]bool, now time.Time) {
	if a.Step != alerts.GapStep || closed[a.ID] {
		return
	}
	for _, id := range a.Closes {
		closed[id] = true
	}
	gap := timeSpan{a.Since, now}
	if a.Status == alerts.Resolved {
		gap.To = a.DecidedAt
	}
	g.ingest = append(g.ingest, gap)
	if strings.HasPrefix(a.Key, sweepTopic) {
		g.sweep = append(g.sweep, gap)
	}
}

// merged returns the spans in order, without overlaps.
func merged(spans []timeSpan) (all []timeSpan) {
	slices.SortFunc(spans, func(a, b timeSpan) int { return a.From.Compare(b.From) })
	for _, s := range spans {
		if n := len(all); n > 0 && !s.From.After(all[n-1].To) {
			all[n-1].To = later(all[n-1].To, s.To)
		} else {
			all = append(all, s)
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// uptimes returns the uptimes of the keys of a page.
func (a *heartbeatAPI) uptimes(ctx context.Context, keys []futurejobs.HeartbeatKey, counted countedHeartbeats) (map[futurejobs.Ref][]Uptime, error) {
	if counted.rules == nil {
		return nil, nil
	}
	now := a.now().UTC()
	refs := make([]futurejobs.Ref, len(keys))
	for i, k := range keys {
		refs[i] = k.Ref
	}
	since := counted.gaps.since
	ended, err := a.keys.HeartbeatPeriods(ctx, refs, since, maxHeartbeatPeriods)
	if err != nil {
		return nil, err
	}
	if len(ended) == maxHeartbeatPeriods {
		since = ended[len(ended)-1].EndedAt
	}
	periods := make(map[futurejobs.Ref][]futurejobs.HeartbeatPeriod)
	for _, p := range ended {
		periods[p.Ref] = append(periods[p.Ref], p)
	}
	out := make(map[futurejobs.Ref][]Uptime, len(keys))
	for _, k := range keys {
		of := periodsOfKey{gaps: counted.gaps.of(counted.rules[k.RuleID])}
		for _, p := range periods[k.Ref] {
			of.addEnded(p)
		}
		of.addPending(k, now)
		for _, from := range monthsOf(now) {
			month := timeSpan{from, from.AddDate(0, 1, 0)}
			out[k.Ref] = append(out[k.Ref], of.uptime(month, since))
		}
	}
	return out, nil
}

// periodsOfKey are the times in which a key was watched and late.
type periodsOfKey struct {
	watched, late []timeSpan
	gaps          []timeSpan // in order, without overlaps
}

func (p *periodsOfKey) add(from, late, to time.Time) {
	p.watched = append(p.watched, timeSpan{from, to})
	if !late.IsZero() {
		p.late = append(p.late, timeSpan{late, to})
	}
}

// addEnded adds an ended job of the key. Before its first success the state of a key is unknown until it is late.
func (p *periodsOfKey) addEnded(e futurejobs.HeartbeatPeriod) {
	from := e.CreatedAt
	if rules.EndsWithFirstSuccess(e.Reason) {
		from = cmp.Or(e.LateAt, e.EndedAt)
	}
	p.add(from, e.LateAt, e.EndedAt)
}

// addPending adds the pending job of a key. If its check failed or is overdue, the state is unknown since then, and so it is
// between a failed run and its alert. The state of a key without a success is unknown until it is late.
func (p *periodsOfKey) addPending(k futurejobs.HeartbeatKey, now time.Time) {
	late := time.Time{}
	if len(k.Alerts) > 0 {
		late = alerts.TimeOf(k.Alerts[0])
	}
	from := k.CreatedAt
	if k.Report.NoSuccess { // without a success, the key is not known to be up
		from = cmp.Or(late, now)
	}
	p.add(from, late, now)
	if k.State == futurejobs.HeartbeatUnknown {
		from := k.NextCheckAt
		if k.UndeterminedChecks > 0 && k.Last.PickedAt.Before(from) {
			from = k.Last.PickedAt
		}
		if failed := k.Report.FailedAt; !failed.IsZero() && failed.Before(from) {
			from = failed
		}
		p.gaps = merged(append(slices.Clone(p.gaps), timeSpan{from, now}))
	}
}

// uptime returns the uptime of a month. The time before since is unknown.
func (p *periodsOfKey) uptime(month timeSpan, since time.Time) Uptime {
	known := timeSpan{later(month.From, since), month.To}
	watched, late := p.outsideGaps(p.watched, known), p.outsideGaps(p.late, known)
	u := Uptime{From: month.From, KnownSeconds: watched.Seconds(), LateSeconds: late.Seconds()}
	if watched > 0 {
		share := 1 - late.Seconds()/watched.Seconds()
		u.Share = &share
	}
	return u
}

// outsideGaps returns the length of the parts of spans in the known time and outside all gaps.
func (p *periodsOfKey) outsideGaps(spans []timeSpan, known timeSpan) (sum time.Duration) {
	for _, s := range spans {
		s = s.within(known)
		sum += s.length()
		for _, gap := range p.gaps {
			sum -= gap.within(s).length()
		}
	}
	return sum
}
