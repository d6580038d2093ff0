package web

import (
	"context"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// gapAlerts has the alerts of a node, newest first.
type gapAlerts struct {
	AlertReader
	items []alerts.Alert
}

func (g gapAlerts) Alerts(context.Context, futurejobs.Filter) (page futurejobs.Page[futurejobs.ListedAlert], _ error) {
	for _, a := range g.items {
		page.Items = append(page.Items, futurejobs.ListedAlert{Alert: a})
	}
	return page, nil
}

// TestUptime checks which parts of two months count as known and as late.
func TestUptime(t *testing.T) {
	on := func(month time.Month, day, hour int) time.Time {
		return time.Date(2026, month, day, hour, 0, 0, 0, time.UTC)
	}
	now := on(11, 11, 0)
	gap := func(topic string, from, to time.Time) []alerts.Alert {
		raised := alerts.SystemAlert{Topic: topic, Step: alerts.GapStep, Status: alerts.Firing, Since: from}.Alert(from)
		if to.IsZero() {
			return []alerts.Alert{raised}
		}
		return []alerts.Alert{alerts.SystemAlert{Topic: topic, Step: alerts.GapStep, Status: alerts.Resolved, Since: from}.Alert(to), raised}
	}
	var items []alerts.Alert
	items = append(items, gap("ingest/ORDERS", on(11, 10, 0), on(11, 10, 6))...)
	items = append(items, gap(sweepTopic, on(11, 9, 0), on(11, 9, 2))...)
	items = append(items, gap(sweepTopic, on(11, 9, 1), on(11, 9, 3))...)
	items = append(items, alerts.SystemAlert{Topic: "channel/pager", Step: "down", Status: alerts.Firing, Since: on(11, 1, 0)}.Alert(on(11, 1, 0)))
	gaps, err := readGaps(t.Context(), gapAlerts{items: items}, 30*futurejobs.Day, now)
	if err != nil || !gaps.since.Equal(on(10, 12, 0)) || len(gaps.sweep) != 1 || len(gaps.ingest) != 2 {
		t.Fatalf("gaps %+v, %v", gaps, err)
	}
	if open, err := readGaps(t.Context(), gapAlerts{items: gap(sweepTopic, on(11, 10, 23), time.Time{})}, 0, now); err != nil || open.sweep[0].length() != time.Hour || !open.since.Equal(on(10, 1, 0)) {
		t.Errorf("an open gap: %+v, %v", open, err)
	}

	key := func(created time.Time, state futurejobs.HeartbeatState, next time.Time) (k futurejobs.HeartbeatKey) {
		k.CreatedAt, k.State, k.NextCheckAt = created, state, next
		return k
	}
	expected := func(k futurejobs.HeartbeatKey, late time.Time) futurejobs.HeartbeatKey {
		if k.Report.NoSuccess = true; !late.IsZero() {
			k.Alerts = []alerts.ID{alerts.SystemAlert{Topic: "key", Since: late}.Alert(late).ID}
		}
		return k
	}
	failed := func(k futurejobs.HeartbeatKey, at time.Time, noSuccess bool) futurejobs.HeartbeatKey {
		k.Report = futurejobs.HeartbeatReport{At: at, FailedAt: at, NoSuccess: noSuccess}
		return k
	}
	for name, c := range map[string]struct {
		pending     futurejobs.HeartbeatKey
		streams     bool
		ended       [][3]time.Time // created, late, ended
		known, late [2]float64     // hours in November and October
	}{
		"up since September":     {key(on(9, 1, 0), futurejobs.HeartbeatUp, now), false, nil, [2]float64{237, 480}, [2]float64{}},
		"of a stream":            {key(on(9, 1, 0), futurejobs.HeartbeatUp, now), true, nil, [2]float64{231, 480}, [2]float64{}},
		"new":                    {key(on(11, 10, 12), futurejobs.HeartbeatUp, now), false, nil, [2]float64{12, 0}, [2]float64{}},
		"late over two months":   {key(on(11, 2, 0), futurejobs.HeartbeatUp, now), false, [][3]time.Time{{on(10, 1, 0), on(10, 31, 0), on(11, 2, 0)}}, [2]float64{237, 480}, [2]float64{24, 24}},
		"late in a gap":          {key(on(11, 9, 6), futurejobs.HeartbeatUp, now), false, [][3]time.Time{{on(11, 1, 0), on(11, 8, 22), on(11, 9, 6)}}, [2]float64{237, 0}, [2]float64{5, 0}},
		"not watched in between": {key(on(11, 10, 0), futurejobs.HeartbeatUp, now), false, [][3]time.Time{{on(11, 1, 0), {}, on(11, 2, 0)}}, [2]float64{48, 0}, [2]float64{}},
		"never reported":         {expected(key(on(11, 10, 0), futurejobs.HeartbeatNeverReported, now.AddDate(0, 0, 1)), time.Time{}), false, nil, [2]float64{}, [2]float64{}},
		"never reported, late":   {expected(key(on(11, 10, 0), futurejobs.HeartbeatLate, now), on(11, 10, 20)), false, nil, [2]float64{4, 0}, [2]float64{4, 0}},
		"only failed":            {failed(key(on(11, 10, 0), futurejobs.HeartbeatUnknown, now), on(11, 10, 20), true), false, nil, [2]float64{}, [2]float64{}},
		"failed":                 {failed(key(on(11, 10, 0), futurejobs.HeartbeatUnknown, now.Add(time.Minute)), on(11, 10, 20), false), false, nil, [2]float64{20, 0}, [2]float64{}},
		"late, then failed":      {failed(expected(key(on(11, 10, 0), futurejobs.HeartbeatLate, now), on(11, 10, 20)), now, true), false, nil, [2]float64{4, 0}, [2]float64{4, 0}},
		"not checked since":      {key(on(11, 10, 0), futurejobs.HeartbeatUnknown, on(11, 10, 20)), false, nil, [2]float64{20, 0}, [2]float64{}},
	} {
		p := periodsOfKey{gaps: gaps.of(countedHeartbeat{streams: c.streams})}
		for _, e := range c.ended {
			p.add(e[0], e[1], e[2])
		}
		p.addPending(c.pending, now)
		for i, from := range monthsOf(now) {
			u := p.uptime(timeSpan{from, from.AddDate(0, 1, 0)}, gaps.since)
			if u.KnownSeconds != c.known[i]*3600 || u.LateSeconds != c.late[i]*3600 || (u.Share == nil) != (c.known[i] == 0) {
				t.Errorf("%s: month %d has %g h, late %g h", name, i, u.KnownSeconds/3600, u.LateSeconds/3600)
			}
			if u.Share != nil && *u.Share != 1-c.late[i]/c.known[i] {
				t.Errorf("%s: share %g", name, *u.Share)
			}
		}
	}
}

// TestUptimeBeforeFirstSuccess checks that the time before the first alert of a job counts as up, unless the success that
// ended the job was the first.
func TestUptimeBeforeFirstSuccess(t *testing.T) {
	day := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	month := timeSpan{day.AddDate(0, 0, -1), day.AddDate(0, 0, 29)}
	for reason, known := range map[string]float64{
		"it recovered after 6h0m0s": 24, "it sent its first heartbeat": 6, "it recovered after 6h0m0s with its first success": 6,
	} {
		var p periodsOfKey
		p.addEnded(futurejobs.HeartbeatPeriod{CreatedAt: day, LateAt: day.Add(18 * time.Hour), EndedAt: day.Add(24 * time.Hour), Reason: reason})
		if u := p.uptime(month, month.From); u.KnownSeconds != known*3600 || u.LateSeconds != 6*3600 {
			t.Errorf("%s: %g h are known, %g h late", reason, u.KnownSeconds/3600, u.LateSeconds/3600)
		}
	}
}
