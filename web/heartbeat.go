package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// Heartbeats reads the keys of heartbeats, and keeps the keys that sign badges. The store implements it. Implementations are
// safe for concurrent use.
type Heartbeats interface {
	// HeartbeatKeys lists keys, by the id of the rule and the key.
	HeartbeatKeys(ctx context.Context, f futurejobs.HeartbeatFilter) (futurejobs.Page[futurejobs.HeartbeatKey], error)
	// HeartbeatCounts counts the keys of rules by state. It reads all of them.
	HeartbeatCounts(ctx context.Context, rules []futurejobs.HeartbeatRule) (map[int32]futurejobs.HeartbeatCounts, error)
	// UnwatchedKeys returns those of the keys of a rule that have no pending job.
	UnwatchedKeys(ctx context.Context, ruleID int32, keys []string) ([]string, error)
	// HeartbeatPeriods returns the ended jobs of keys that ended at or after an instant, newest first.
	HeartbeatPeriods(ctx context.Context, keys []futurejobs.Ref, since time.Time, limit int) ([]futurejobs.HeartbeatPeriod, error)

	// BadgeKey returns the key that signs the badges of a rule, or futurejobs.ErrNotFound.
	BadgeKey(ctx context.Context, ruleID int32) ([]byte, error)
	// CreateBadgeKey is BadgeKey, and creates a missing key.
	CreateBadgeKey(ctx context.Context, ruleID int32) ([]byte, error)
	// DeleteBadgeKey makes all badges of a rule invalid, or returns futurejobs.ErrNotFound.
	DeleteBadgeKey(ctx context.Context, ruleID int32) error
}

// heartbeatStates are the states of keys in the API.
var heartbeatStates = [futurejobs.HeartbeatStates]string{"paused", "late", "unknown", "never_reported", "up"}

// Heartbeat is a key of a heartbeat, as the API returns it.
type Heartbeat struct {
	Rule       string    `json:"rule" doc:"Name of the rule." example:"backup-nightly"`
	Entity     string    `json:"entity" doc:"Entity type." example:"backup"`
	Key        string    `json:"key" doc:"Key of the entity." example:"crm"`
	State      string    `json:"state" enum:"up,late,never_reported,paused,unknown" doc:"up: a report came, and the next one is not overdue. late: the key has an open alert, because a report is missing or reported a failure. never_reported: nothing was reported since the key is expected. paused: an event of the rule's pause stopped the clock of the job. unknown: the last check failed, or is overdue by more than a minute; or a run failed and no check has raised its alert yet: see failed_at; or no report came in time and a monitoring gap excused it: see excused_until; or a person closed its alert or created its job, and no report came since."`
	ReportedAt time.Time `json:"reported_at,omitzero" doc:"Time of the last report: a success, a failure or the start of a run. Of several successes that lead to the same slot, it is the first. Absent if nothing was reported since the key is expected."`
	FailedAt   time.Time `json:"failed_at,omitzero" doc:"Time of the last failed run that was reported. Absent after a success."`
	Failure    string    `json:"failure,omitempty" doc:"Why that run failed: its exit status, and the last line of the output that was sent. A key that is late and has it reported a failure; without it a report is missing." example:"failed with exit status 3: pg_dump: connection refused"`
	DueAt      time.Time `json:"due_at,omitzero" doc:"Time by which the next report must come, the grace included; of a failed run, time of the check that raises its alert. Absent while the key is late or paused."`
	OverdueAt  time.Time `json:"overdue_at,omitzero" doc:"Time by which the report had to come that a monitoring gap excused. Absent unless the key is excused."`
	ExcusedTo  time.Time `json:"excused_until,omitzero" doc:"Time of the check that raises an alert if no report comes until then. Present if no report came in time, and a monitoring gap excused it: deadman may have missed it. It is then due_at, too."`
	LateSince  time.Time `json:"late_since,omitzero" doc:"Time of the first open alert. Absent unless the key is late."`
	Months     []Uptime  `json:"months" nullable:"false" doc:"Uptime of this and of the last month in UTC, in this order. Empty until monitoring gaps are read, a moment after the first request."`
}

// Status is the state for people: failed for a late key whose last run failed.
func (h Heartbeat) Status() string {
	if h.State == heartbeatStates[futurejobs.HeartbeatLate] && !h.FailedAt.IsZero() {
		return "failed"
	}
	return h.State
}

// SortHeartbeats puts the keys that need attention first: late or failed, unknown, never reported, paused, up.
func SortHeartbeats(keys []Heartbeat) {
	order := []string{"late", "unknown", "never_reported", "paused", "up"}
	slices.SortStableFunc(keys, func(a, b Heartbeat) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
}

// Uptime tells for which part of a month a key was not late.
type Uptime struct {
	From         time.Time `json:"from" doc:"Start of the month."`
	Share        *float64  `json:"share,omitempty" doc:"Part of the known time in which the key was not late, from 0 to 1. Absent if nothing is known."`
	KnownSeconds float64   `json:"known_seconds" doc:"Time for which the state is known, in seconds: the key had a job, it had reported or was late, no monitoring gap was open, and the alerts of that time are still kept."`
	LateSeconds  float64   `json:"late_seconds" doc:"Part of the known time in which the key was late: from its first alert to the report that resolved it."`
}

// HeartbeatPage is one page of the list of keys.
type HeartbeatPage struct {
	Page[Heartbeat]
	Counts        *HeartbeatCounts `json:"counts,omitempty" doc:"Number of keys by state, for the filters by rule and entity. Absent before the first count. Counted from the items if all keys are on the page; otherwise up to some seconds old, see counted_at."`
	Unwatched     []UnwatchedKey   `json:"unwatched" nullable:"false" doc:"Expected keys of the same filters that nothing watches: a person or a resolve ended their job, and no report came since. deadman job create watches a key again. Up to 100 of a rule; up to some seconds old, see counted_at."`
	NeverReported []string         `json:"never_reported_rules" nullable:"false" doc:"Rules of the same filters without expected keys that nothing ever reported to: they have no keys and watch nothing."`
}

// UnwatchedKey is an expected key without a job.
type UnwatchedKey struct {
	Rule string `json:"rule" doc:"Name of the rule." example:"backup-nightly"`
	Key  string `json:"key" doc:"Key of the entity." example:"crm"`
}

// mostUnwatched bounds the listed keys of a rule that nothing watches.
const mostUnwatched = 100

// HeartbeatCounts is the number of keys by state.
type HeartbeatCounts struct {
	Up            int64     `json:"up" doc:"Number of keys that reported in time."`
	Late          int64     `json:"late" doc:"Number of keys with an open alert."`
	NeverReported int64     `json:"never_reported" doc:"Number of expected keys that nothing was reported of."`
	Paused        int64     `json:"paused" doc:"Number of keys that are paused."`
	Unknown       int64     `json:"unknown" doc:"Number of keys whose state is unknown: the last check was undetermined or is overdue, a run failed without an alert yet, a monitoring gap excuses a missing report, or a person closed the alert."`
	CountedAt     time.Time `json:"counted_at" doc:"Time of the count."`
}

// heartbeatListIn has the filters of the list of keys.
type heartbeatListIn struct {
	ListFilter
	KeyPrefix identifier `query:"key_prefix" doc:"Filter by a prefix of the key." example:"db-"`
	State     string     `query:"state" enum:"up,late,never_reported,paused,unknown" doc:"Filter by state."`
	Paging
}

// heartbeatAPI has the operation on the keys of heartbeats.
type heartbeatAPI struct {
	keys    Heartbeats
	catalog LoadedRules
	rules   Rules
	counts  *heartbeatCounts
	jobs    *ruleJobCounts
	now     func() time.Time
}

func (a *heartbeatAPI) register(all *operations) {
	register(all, operation{
		ID: "list-heartbeats", Tag: tagJobs, Method: "GET", Path: "/heartbeats", Summary: "list the keys of heartbeats with their state and uptime",
		Description: "Keys are listed by rule, in the order of creation, then by key. A key without a job is not listed: nothing watches it. If the rule expects it, unwatched has it.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.list))
}

func (a *heartbeatAPI) list(ctx context.Context, in *heartbeatListIn) (HeartbeatPage, error) {
	out := HeartbeatPage{NeverReported: []string{}, Unwatched: []UnwatchedKey{}}
	f := futurejobs.HeartbeatFilter{Key: string(in.Key), KeyPrefix: string(in.KeyPrefix), Limit: in.Limit, Cursor: in.Cursor}
	if at := slices.Index(heartbeatStates[:], in.State); at >= 0 {
		state := futurejobs.HeartbeatState(at)
		f.State = &state
	}
	all, err := a.rules.List(ctx)
	if err != nil {
		return out, err
	}
	counted, known := a.counts.newest(ctx)
	jobs := a.jobs.last(ctx)
	var counts HeartbeatCounts
	for _, l := range all {
		if !hasHeartbeat(l) || in.Rule != "" && l.Name != string(in.Rule) || in.Entity != "" && l.Entity != string(in.Entity) || !principalOf(ctx).canSee(l.Name) {
			continue
		}
		f.Rules = append(f.Rules, listedHeartbeat(a.catalog, l.Name, l.RuleID, a.now()))
		of := counted.What.rules[l.RuleID]
		counts.add(of.keys)
		for _, key := range of.unwatched[:min(len(of.unwatched), mostUnwatched)] {
			if (in.Key == "" || string(in.Key) == key) && strings.HasPrefix(key, string(in.KeyPrefix)) {
				out.Unwatched = append(out.Unwatched, UnwatchedKey{l.Name, key})
			}
		}
		if jobs.isNeverReported(l) {
			out.NeverReported = append(out.NeverReported, l.Name)
		}
	}
	if known {
		counts.CountedAt = counted.At.UTC()
		out.Counts = &counts
	}
	page, err := a.keys.HeartbeatKeys(ctx, f)
	if err != nil {
		return out, err
	}
	if in.isWhole() && page.Next == "" {
		out.Counts = countOf(page.Items, a.now())
	}
	uptimes, err := a.uptimes(ctx, page.Items, counted.What)
	if err != nil {
		return out, err
	}
	out.Page = pageOf(page, func(k futurejobs.HeartbeatKey) Heartbeat { return a.heartbeat(k, uptimes[k.Ref]) })
	return out, nil
}

// isWhole reports whether a list begins with the first of all keys that are counted.
func (in *heartbeatListIn) isWhole() bool {
	return in.Cursor == "" && in.State == "" && in.Key == "" && in.KeyPrefix == ""
}

// countOf counts listed keys, so that the counts of a page with all keys agree with its rows.
func countOf(keys []futurejobs.HeartbeatKey, now time.Time) *HeartbeatCounts {
	var n futurejobs.HeartbeatCounts
	for _, k := range keys {
		n[k.State]++
	}
	counts := &HeartbeatCounts{CountedAt: now.UTC()}
	counts.add(n)
	return counts
}

// listedHeartbeat returns a rule of the catalog for the list of keys. No report of an unreadable rule is overdue.
func listedHeartbeat(catalog LoadedRules, name string, id int32, now time.Time) futurejobs.HeartbeatRule {
	of := futurejobs.HeartbeatRule{ID: id}
	if rule, err := catalog.Newest(name); err == nil {
		of.OverdueBefore = rule.OverdueBefore(now)
	}
	return of
}

func hasHeartbeat(l rules.ListedRule) bool { return l.Document.Trigger.Heartbeat != nil }

func (a *heartbeatAPI) heartbeat(k futurejobs.HeartbeatKey, months []Uptime) Heartbeat {
	h := Heartbeat{Rule: k.Rule, Entity: k.Entity, Key: k.Key, State: heartbeatStates[k.State], ReportedAt: k.ReportedAt(), FailedAt: k.Report.FailedAt, Failure: k.Report.Failure, Months: months}
	switch k.State {
	case futurejobs.HeartbeatPaused:
	case futurejobs.HeartbeatLate:
		h.LateSince = alerts.TimeOf(k.Alerts[0])
	default:
		h.DueAt = k.NextCheckAt
		if rule, err := a.catalog.Newest(k.Rule); err == nil && !k.Omitted {
			switch due := rule.HeartbeatDue(k.Job); {
			case due.After(a.now()):
				h.DueAt = due
			case k.Excused && h.FailedAt.IsZero():
				h.OverdueAt, h.ExcusedTo = due, k.NextCheckAt
			}
		}
	}
	if h.Months == nil {
		h.Months = []Uptime{}
	}
	return h
}

func (c *HeartbeatCounts) add(n futurejobs.HeartbeatCounts) {
	c.Up += n[futurejobs.HeartbeatUp]
	c.Late += n[futurejobs.HeartbeatLate]
	c.NeverReported += n[futurejobs.HeartbeatNeverReported]
	c.Paused += n[futurejobs.HeartbeatPaused]
	c.Unknown += n[futurejobs.HeartbeatUnknown]
}

// heartbeatCounts caches what all requests for heartbeats share.
type heartbeatCounts struct {
	*cachedCount[countedHeartbeats]
}

// countedHeartbeats has the rules with heartbeats, by id, and the monitoring gaps.
type countedHeartbeats struct {
	rules map[int32]countedHeartbeat
	gaps  monitoringGaps
}

// countedHeartbeat is a rule with a heartbeat.
type countedHeartbeat struct {
	name    string
	paused  bool
	streams bool // its reports come from a stream
	keys    futurejobs.HeartbeatCounts

	unwatched []string // expected keys without a job; none while the rule rests
}

func newHeartbeatCounts(o Options) *heartbeatCounts {
	return &heartbeatCounts{&cachedCount[countedHeartbeats]{what: "heartbeats", now: o.Now, log: o.Log, count: func(ctx context.Context) (c countedHeartbeats, err error) {
		all, err := o.Rules.List(ctx)
		if err != nil {
			return c, err
		}
		c.rules = make(map[int32]countedHeartbeat)
		var keys []futurejobs.HeartbeatRule
		for _, l := range all {
			if !hasHeartbeat(l) {
				continue
			}
			keys = append(keys, listedHeartbeat(o.Catalog, l.Name, l.RuleID, o.Now()))
			rule := countedHeartbeat{name: l.Name, paused: !l.PausedAt.IsZero(), streams: l.Document.Trigger.Heartbeat.Event != ""}
			if expected := l.Document.InitialKeys(); len(expected) > 0 && !rule.paused {
				if rule.unwatched, err = o.Heartbeats.UnwatchedKeys(ctx, l.RuleID, expected); err != nil {
					return c, err
				}
			}
			c.rules[l.RuleID] = rule
		}
		counts, err := o.Heartbeats.HeartbeatCounts(ctx, keys)
		if err != nil {
			return c, err
		}
		for id, keys := range counts {
			rule := c.rules[id]
			rule.keys = keys
			c.rules[id] = rule
		}
		c.gaps, err = readGaps(ctx, o.Lists, o.AlertsKept, o.Now().UTC())
		return c, err
	}}}
}
