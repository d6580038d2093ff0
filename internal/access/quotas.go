package access

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Quotas holds the quotas of all prefixes and their use, as known to a node. A node periodically learns the counts of
// the database, and adds its own actions in between. It is safe for concurrent use. Without quotas it costs one
// memory access.
type Quotas struct {
	current  atomic.Pointer[quotaSet]
	learning sync.Mutex
}

var _ futurejobs.Quotas = (*Quotas)(nil)

// Any reports whether any prefix has a quota.
func (q *Quotas) Any() bool {
	s := q.current.Load()
	return s != nil && len(s.meters) > 0
}

// Has reports whether a prefix has a quota of its own.
func (q *Quotas) Has(prefix string) bool { return q.current.Load().meter(prefix) != nil }

// Tenant returns the longest prefix with a quota that matches a rule's name; empty: none.
func (q *Quotas) Tenant(rule string) string {
	if meters := q.current.Load().of(LimitRules, rule); len(meters) > 0 {
		return meters[0].Prefix
	}
	return ""
}

// Covers reports whether a rule counts toward a quota.
func (q *Quotas) Covers(rule string) bool { return len(q.current.Load().of(LimitRules, rule)) > 0 }

// Set sets the quotas of all prefixes. room is the maximum size of the stream of alerts in bytes; 0: unlimited.
func (q *Quotas) Set(quotas []Quota, room int64) {
	q.learning.Lock()
	defer q.learning.Unlock()
	q.current.Store(newQuotaSet(quotas, room, q.current.Load()))
}

// SetWithin is Set for the prefixes that begin with a text. Quotas of further prefixes stay.
func (q *Quotas) SetWithin(text string, quotas []Quota, room int64) {
	q.learning.Lock()
	defer q.learning.Unlock()
	q.current.Store(q.current.Load().replaced(text, quotas, room))
}

// Shortest returns the shortest known prefix that a prefix begins with; if none, the prefix. Rules of longer prefixes may
// count toward its quota.
func (q *Quotas) Shortest(prefix string) string {
	if s := q.current.Load(); s != nil {
		for _, n := range slices.Backward(s.lengths) {
			if n <= len(prefix) && s.meters[prefix[:n]] != nil {
				return prefix[:n]
			}
		}
	}
	return prefix
}

// Learned holds the use of quotas as counted by the database.
type Learned struct {
	Within    string           // what the counted rules, and the prefixes, begin with; empty: all
	Rules     map[string]int64 // 1 for each existing rule, by name
	Schedules map[string]int64 // stored schedules by rule
	RuleBytes map[string]int64 // bytes of kept versions by rule; nil: not counted this time
	Jobs      map[string]int64 // pending jobs by rule; nil: not counted this time
	Bytes     map[string]int64 // bytes of those jobs by rule; nil: not counted this time
	PingBytes map[string]int64 // bytes of bodies in the log of pings by rule; nil: not counted this time
	Spent     map[string]Spent // by prefix
}

// Spent has the use of the resources of a prefix that nodes add up in the database, by the constants below.
type Spent [spends]int64

// The indexes of Spent.
const (
	SpentAlerts          = iota // published alerts, in the current hour
	SpentAlertBytes             // bytes in the stream of alerts
	SpentKeptAlertBytes         // bytes of kept alerts
	SpentKeptAnswerBytes        // bytes of kept answers
)

// Uncounted returns the prefixes that begin with a text, without a count of their jobs.
func (q *Quotas) Uncounted(text string) (prefixes []string) {
	for prefix, m := range q.current.Load().within(text) {
		if !m.jobs.wasCounted() {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// CountJobs marks the beginning of the database's job count for Learn, of the rules that begin with a text.
func (q *Quotas) CountJobs(text string) {
	q.learning.Lock()
	defer q.learning.Unlock()
	for _, m := range q.current.Load().within(text) {
		m.jobs.count()
	}
}

// Learn applies the counts of the database. Alerts that this node published since the last Take are not in them, and are
// added.
func (q *Quotas) Learn(l Learned) {
	q.learning.Lock()
	defer q.learning.Unlock()
	s := q.current.Load()
	if s == nil {
		return
	}
	counted := make(map[*meter]*[limits]int64)
	for what, byRule := range map[Limited]map[string]int64{LimitRules: l.Rules, LimitRuleBytes: l.RuleBytes, LimitSchedules: l.Schedules, LimitJobs: l.Jobs, LimitJobBytes: l.Bytes, LimitKeptPingBytes: l.PingBytes} {
		for rule, n := range byRule {
			for _, m := range s.of(what, rule) {
				if counted[m] == nil {
					counted[m] = new([limits]int64)
				}
				counted[m][countedAt[what]] += n
			}
		}
	}
	for prefix, m := range s.within(l.Within) {
		now := counted[m]
		if now == nil {
			now = new([limits]int64)
		}
		m.used[atRules].Store(now[atRules])
		m.used[atSchedules].Store(now[atSchedules])
		if l.RuleBytes != nil {
			m.used[atRuleBytes].Store(now[atRuleBytes])
		}
		if l.Jobs != nil {
			m.jobs.learn(now[atJobs])
		}
		if l.Bytes != nil {
			m.used[atJobBytes].Store(now[atJobBytes])
		}
		if l.PingBytes != nil {
			m.learnPingBytes(now[atKeptPingBytes])
		}
		m.learnSpent(l.Spent[prefix])
	}
}

// Publish withdraws an event of the given size from the rates of a tenant's prefix or a rule. If a rate is exceeded,
// it returns the error and the delay until a retry. An empty name has no quota.
func (q *Quotas) Publish(name string, bytes int, now time.Time) (wait time.Duration, err error) {
	s := q.current.Load()
	var all []withdrawal
	for _, m := range s.of(LimitEvents, name) {
		all = append(all, withdrawal{m, LimitEvents, atEvents, m.events, 1})
	}
	for _, m := range s.of(LimitEventBytes, name) {
		all = append(all, withdrawal{m, LimitEventBytes, atEventBytes, m.bytes, max(1, min(bytes, m.bytes.Burst()))})
	}
	for i, t := range all {
		if t.bucket.AllowN(now, t.n) {
			continue
		}
		t.refused[t.at].Add(1)
		for _, taken := range all[:i] { // the event is not published: refund the other buckets
			taken.bucket.AllowN(now, -taken.n)
		}
		return t.wait(now), t.ExceededTo(name, t.what, t.limits[t.what])
	}
	return 0, nil
}

// Admit counts an alert as published if its quotas allow it, and reports whether they do. bytes is its size in the
// stream. Forget reverts it.
func (q *Quotas) Admit(a *alerts.Alert, bytes int64) bool {
	s := q.current.Load()
	for _, what := range []Limited{LimitAlerts, LimitAlertBytes} {
		at := place(what)
		for _, m := range s.of(what, a.Rule) {
			if m.used[at].Load() >= m.limits[what] {
				return false
			}
		}
	}
	q.Spend(a, bytes)
	return true
}

// Spend counts an alert as published.
func (q *Quotas) Spend(a *alerts.Alert, bytes int64) { q.spend(a, 1, bytes) }

// Forget reverts Admit or Spend.
func (q *Quotas) Forget(a *alerts.Alert, bytes int64) { q.spend(a, -1, -bytes) }

func (q *Quotas) spend(a *alerts.Alert, n, bytes int64) {
	s := q.current.Load()
	for _, m := range s.of(LimitAlerts, a.Rule) {
		m.spend(SpentAlerts, n)
	}
	for _, m := range s.of(LimitAlertBytes, a.Rule) {
		m.spend(SpentAlertBytes, bytes)
	}
}

// Withhold counts an alert as refused.
func (q *Quotas) Withhold(a *alerts.Alert) {
	s := q.current.Load()
	for _, what := range []Limited{LimitAlerts, LimitAlertBytes} {
		at := place(what)
		for _, m := range s.of(what, a.Rule) {
			if m.used[at].Load() >= m.limits[what] {
				m.refused[at].Add(1)
			}
		}
	}
}

// Done holds the use by a node since the last Take.
type Done struct {
	Prefix  string
	Spent   Spent
	Refused map[Limited]int64
}

// Take returns and resets the node's use, by prefix. If it can't be saved, Return must restore it.
func (q *Quotas) Take() (all []Done) {
	s := q.current.Load()
	if s == nil {
		return nil
	}
	for _, prefix := range slices.Sorted(maps.Keys(s.meters)) {
		m := s.meters[prefix]
		d := Done{Prefix: prefix, Spent: m.takeSpent()}
		for i, l := range Limits {
			if n := m.refused[i].Swap(0); n > 0 {
				if d.Refused == nil {
					d.Refused = make(map[Limited]int64)
				}
				d.Refused[l.Limited] = n
			}
		}
		if d.Spent != (Spent{}) || d.Refused != nil {
			all = append(all, d)
		}
	}
	return all
}

// Return restores the counts of Take that the store did not save.
func (q *Quotas) Return(all []Done) {
	s := q.current.Load()
	for _, d := range all {
		m := s.meter(d.Prefix)
		if m == nil {
			continue
		}
		for i, n := range d.Spent {
			m.spent[i].Add(n)
		}
		for i, l := range Limits {
			m.refused[i].Add(d.Refused[l.Limited])
		}
	}
}

// Uses returns the quotas of the prefixes that begin with the given one, and their use, sorted by prefix. It does not
// fill in refusals.
func (q *Quotas) Uses(prefix string) (all []QuotaUse) {
	s := q.current.Load()
	if s == nil {
		return nil
	}
	for _, of := range slices.Sorted(maps.Keys(s.meters)) {
		if !strings.HasPrefix(of, prefix) {
			continue
		}
		m := s.meters[of]
		use := QuotaUse{Quota: m.Quota}
		for i, l := range Limits {
			use.Use = append(use.Use, LimitUse{Limited: l.Limited, Most: m.limits[l.Limited], Used: m.usedOf(i)})
		}
		all = append(all, use)
	}
	return all
}

// Problem returns the text of the first quota that a rule has used up, for its listing to a visitor with a prefix;
// empty: none.
func (q *Quotas) Problem(rule, visitor string) string {
	s := q.current.Load()
	for _, what := range []struct {
		Limited
		at int
	}{{LimitJobs, atJobs}, {LimitJobBytes, atJobBytes}, {LimitAlerts, atAlerts}, {LimitAlertBytes, atBytes}, {LimitKeptAlertBytes, atKeptAlertBytes}, {LimitKeptPingBytes, atKeptPingBytes}} {
		for _, m := range s.of(what.Limited, rule) {
			if limit := m.limits[what.Limited]; m.usedOf(what.at) >= limit {
				return m.ExceededTo(visitor, what.Limited, limit).Error()
			}
		}
	}
	return ""
}

// Crowded reports whether the versions of a rule's tenant use more than half of a quota.
func (q *Quotas) Crowded(rule string) bool {
	return slices.ContainsFunc(q.current.Load().of(LimitRuleBytes, rule), func(m *meter) bool {
		return m.used[atRuleBytes].Load() > m.limits[LimitRuleBytes]/2
	})
}

// RoomFor returns an error if a quota has no room for the growth of a tenant's rules. quotas are those of all prefixes;
// used has the use of a resource by rules, by name, and more their growth.
func RoomFor(quotas []Quota, what Limited, used, more map[string]int64, tenant string) error {
	s := newQuotaSet(quotas, 0, nil)
	for _, rule := range slices.Sorted(maps.Keys(more)) {
		for _, m := range s.of(what, rule) {
			grown, limit := s.sum(m, what, more), m.limits[what]
			if grown > 0 && s.sum(m, what, used)+grown > limit {
				return m.ExceededTo(tenant, what, limit)
			}
		}
	}
	return nil
}
