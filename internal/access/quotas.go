package access

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Quotas are the quotas of all prefixes as a node knows them, and what the node knows of their use. A node learns now and then what the
// database counts, and adds what it does itself meanwhile. It is safe for concurrent use. Without prefixes it costs a look at memory.
type Quotas struct {
	current  atomic.Pointer[quotaSet]
	learning sync.Mutex
}

var _ futurejobs.Quotas = (*Quotas)(nil)

// quotaSet is the quotas at one time. It is not changed once made, but for the numbers of its meters.
type quotaSet struct {
	meters  map[string]*meter // by prefix
	lengths []int             // of the prefixes, each once, the longest first
}

// meter counts what is used of a quota.
type meter struct {
	Quota
	most    map[Limited]int64 // of all limits
	jobs    *jobCount
	used    [limits]atomic.Int64 // but jobs
	refused [limits]atomic.Int64 // since it was last taken
	spent   [2]atomic.Int64      // alerts published, and their bytes, since that was last taken
	events  *rate.Limiter
	bytes   *rate.Limiter // of events
}

// limits is how many Limits there are; the numbers of a meter are in that order.
const limits = 7

// Places of the numbers of a meter.
const (
	atRules = iota
	atJobs
	atJobBytes
	atEvents
	atEventBytes
	atAlerts
	atBytes
)

// newQuotaSet makes meters of quotas. Those of a prefix that is known go on counting.
func newQuotaSet(quotas []Quota, room int64, before *quotaSet) *quotaSet {
	s := &quotaSet{meters: make(map[string]*meter, len(quotas))}
	for _, q := range quotas {
		m := &meter{Quota: q, most: make(map[Limited]int64, limits)}
		for _, l := range Limits {
			m.most[l.Limited] = q.Most(l.Limited, room)
		}
		if known := before.meter(q.Prefix); known != nil && maps.Equal(known.most, m.most) && maps.Equal(known.Set, q.Set) && known.SetAt.Equal(q.SetAt) {
			m = known
		} else {
			m.jobs = new(jobCount)
			m.events = rate.NewLimiter(rate.Limit(m.most[LimitEvents]), int(2*m.most[LimitEvents]))
			m.bytes = rate.NewLimiter(rate.Limit(m.most[LimitEventBytes]), burstOf(m.most[LimitEventBytes]))
			if known != nil {
				m.goOnFrom(known)
			}
		}
		s.meters[q.Prefix] = m
		s.lengths = append(s.lengths, len(q.Prefix))
	}
	slices.Sort(s.lengths)
	s.lengths = slices.Compact(s.lengths)
	slices.Reverse(s.lengths)
	return s
}

// largestEvent is more than any event has that the API takes, with its headers: one always passes where the bucket of bytes is full.
const largestEvent = 512 << 10

// burstOf is how many bytes of events may come at once, of so many a second.
func burstOf(most int64) int {
	if most == 0 {
		return 0
	}
	return int(max(2*most, largestEvent))
}

// goOnFrom takes over what another meter of the prefix has counted.
func (m *meter) goOnFrom(known *meter) {
	m.jobs = known.jobs
	for i := range limits {
		m.used[i].Store(known.used[i].Load())
		m.refused[i].Add(known.refused[i].Swap(0))
	}
	for i := range m.spent {
		m.spent[i].Add(known.spent[i].Swap(0))
	}
}

// usedOf returns how much is used of a limit.
func (m *meter) usedOf(at int) int64 {
	if at == atJobs {
		return m.jobs.Load()
	}
	return m.used[at].Load()
}

// meter returns the meter of a prefix, or nil.
func (s *quotaSet) meter(prefix string) *meter {
	if s == nil {
		return nil
	}
	return s.meters[prefix]
}

// of returns the meters that a rule counts toward: of the longest prefix that its name begins with, and of shorter ones whose limit was
// set. So tenants below a prefix with nothing but defaults do not share those.
func (s *quotaSet) of(what Limited, rule string) (all []*meter) {
	if s == nil {
		return nil
	}
	for _, n := range s.lengths {
		if n > len(rule) {
			continue
		}
		m := s.meters[rule[:n]]
		if m == nil {
			continue
		}
		if _, set := m.Set[what]; set || len(all) == 0 {
			all = append(all, m)
		}
	}
	return all
}

// Any reports whether there is a prefix with a quota.
func (q *Quotas) Any() bool {
	s := q.current.Load()
	return s != nil && len(s.meters) > 0
}

// Tenant returns the longest prefix with a quota that a rule's name begins with; empty: none.
func (q *Quotas) Tenant(rule string) string {
	if meters := q.current.Load().of(LimitRules, rule); len(meters) > 0 {
		return meters[0].Prefix
	}
	return ""
}

// Covers reports whether a rule counts toward a quota.
func (q *Quotas) Covers(rule string) bool { return len(q.current.Load().of(LimitRules, rule)) > 0 }

// Set takes in the quotas of all prefixes. room is the most bytes that the stream of alerts may have; 0: no limit.
func (q *Quotas) Set(quotas []Quota, room int64) {
	q.learning.Lock()
	defer q.learning.Unlock()
	q.current.Store(newQuotaSet(quotas, room, q.current.Load()))
}

// Learned is what a node learns of the use of quotas now and then.
type Learned struct {
	Rules []string         // the names of the rules that are not deleted
	Jobs  map[string]int64 // pending jobs by the name of their rule; nil: not counted this time
	Bytes map[string]int64 // of those jobs, likewise; nil: not counted this time
	Spent map[string]Spent // by prefix
}

// Spent is what was published of the alerts of a prefix.
type Spent struct {
	Alerts int64 // since the hour began
	Bytes  int64 // that are in the stream of alerts
}

// JobsCounted reports whether the jobs of all prefixes were counted once.
func (q *Quotas) JobsCounted() bool {
	s := q.current.Load()
	if s == nil {
		return true
	}
	for _, m := range s.meters {
		if !m.jobs.wasCounted() {
			return false
		}
	}
	return true
}

// CountJobs says that the database begins to count the jobs of Learn.
func (q *Quotas) CountJobs() {
	q.learning.Lock()
	defer q.learning.Unlock()
	if s := q.current.Load(); s != nil {
		for _, m := range s.meters {
			m.jobs.count()
		}
	}
}

// Learn takes in what the database has counted. Published alerts that this node counted meanwhile, and the count lacks, are not counted until
// the next time.
func (q *Quotas) Learn(l Learned) {
	q.learning.Lock()
	defer q.learning.Unlock()
	s := q.current.Load()
	if s == nil {
		return
	}
	counted := make(map[*meter]*[limits]int64)
	add := func(what Limited, at int, rule string, n int64) {
		for _, m := range s.of(what, rule) {
			if counted[m] == nil {
				counted[m] = new([limits]int64)
			}
			counted[m][at] += n
		}
	}
	for _, rule := range l.Rules {
		add(LimitRules, atRules, rule, 1)
	}
	for rule, n := range l.Jobs {
		add(LimitJobs, atJobs, rule, n)
	}
	for rule, n := range l.Bytes {
		add(LimitJobBytes, atJobBytes, rule, n)
	}
	for prefix, m := range s.meters {
		now := counted[m]
		if now == nil {
			now = new([limits]int64)
		}
		m.used[atRules].Store(now[atRules])
		if l.Jobs != nil {
			m.jobs.learn(now[atJobs])
		}
		if l.Bytes != nil {
			m.used[atJobBytes].Store(now[atJobBytes])
		}
		m.used[atAlerts].Store(l.Spent[prefix].Alerts)
		m.used[atBytes].Store(l.Spent[prefix].Bytes)
	}
}

// mostWait is the longest time after which an event of a schedule is tried again: a limit may be raised meanwhile.
const mostWait = time.Minute

// taking is a bucket of a meter that an event is taken off.
type taking struct {
	*meter
	what   Limited
	at     int
	bucket *rate.Limiter
	n      int
}

// Publish takes an event of so many bytes off those that a token with a prefix may publish, or a rule may emit, at a time. It returns why
// it may not, and when it may be tried again. An empty name has no quota.
func (q *Quotas) Publish(name string, bytes int, now time.Time) (wait time.Duration, err error) {
	s := q.current.Load()
	var all []taking
	for _, m := range s.of(LimitEvents, name) {
		all = append(all, taking{m, LimitEvents, atEvents, m.events, 1})
	}
	for _, m := range s.of(LimitEventBytes, name) {
		all = append(all, taking{m, LimitEventBytes, atEventBytes, m.bytes, max(1, min(bytes, m.bytes.Burst()))})
	}
	for i, t := range all {
		if t.bucket.AllowN(now, t.n) {
			continue
		}
		t.refused[t.at].Add(1)
		for _, taken := range all[:i] { // the event is not published: the others get it back
			taken.bucket.AllowN(now, -taken.n)
		}
		return t.wait(now), t.ExceededTo(name, t.what, t.most[t.what])
	}
	return 0, nil
}

// wait is for how long the bucket has too little: whole seconds.
func (t taking) wait(now time.Time) time.Duration {
	lacks, perSecond := float64(t.n)-t.bucket.TokensAt(now), float64(t.bucket.Limit())
	if perSecond == 0 || lacks > perSecond*mostWait.Seconds() {
		return mostWait
	}
	return time.Duration(max(1, math.Ceil(lacks/perSecond))) * time.Second
}

// Admit takes an alert off those that may be published, and reports whether there was one left for it. bytes is what it takes in the
// stream. An alert that is admitted counts as published; Forget takes that back.
func (q *Quotas) Admit(a *alerts.Alert, bytes int64) bool {
	s := q.current.Load()
	for _, what := range []Limited{LimitAlerts, LimitAlertBytes} {
		at := place(what)
		for _, m := range s.of(what, a.Rule) {
			if m.used[at].Load() >= m.most[what] {
				return false
			}
		}
	}
	q.Spend(a, bytes)
	return true
}

// Spend counts an alert as published.
func (q *Quotas) Spend(a *alerts.Alert, bytes int64) { q.spend(a, 1, bytes) }

// Forget takes back what Admit or Spend counted.
func (q *Quotas) Forget(a *alerts.Alert, bytes int64) { q.spend(a, -1, -bytes) }

func (q *Quotas) spend(a *alerts.Alert, n, bytes int64) {
	s := q.current.Load()
	for _, m := range s.of(LimitAlerts, a.Rule) {
		m.used[atAlerts].Add(n)
		m.spent[0].Add(n)
	}
	for _, m := range s.of(LimitAlertBytes, a.Rule) {
		m.used[atBytes].Add(bytes)
		m.spent[1].Add(bytes)
	}
}

// Withhold counts an alert as refused.
func (q *Quotas) Withhold(a *alerts.Alert) {
	s := q.current.Load()
	for _, what := range []Limited{LimitAlerts, LimitAlertBytes} {
		at := place(what)
		for _, m := range s.of(what, a.Rule) {
			if m.used[at].Load() >= m.most[what] {
				m.refused[at].Add(1)
			}
		}
	}
}

// place is where a meter counts a limit of alerts.
func place(what Limited) int {
	if what == LimitAlertBytes {
		return atBytes
	}
	return atAlerts
}

// Done is what a node did since it was last asked.
type Done struct {
	Prefix  string
	Spent   Spent
	Refused map[Limited]int64
}

// Take returns what was done since it was last called, by prefix; what is not kept is given back with Return.
func (q *Quotas) Take() (all []Done) {
	s := q.current.Load()
	if s == nil {
		return nil
	}
	for _, prefix := range slices.Sorted(maps.Keys(s.meters)) {
		m := s.meters[prefix]
		d := Done{Prefix: prefix, Spent: Spent{m.spent[0].Swap(0), m.spent[1].Swap(0)}}
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

// Return gives back the counts of Take that the store did not keep.
func (q *Quotas) Return(all []Done) {
	s := q.current.Load()
	for _, d := range all {
		m := s.meter(d.Prefix)
		if m == nil {
			continue
		}
		m.spent[0].Add(d.Spent.Alerts)
		m.spent[1].Add(d.Spent.Bytes)
		for i, l := range Limits {
			m.refused[i].Add(d.Refused[l.Limited])
		}
	}
}

// Uses returns the quotas of the prefixes that begin with one, and what is used of them, by prefix. Refusals are not in it.
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
			use.Use = append(use.Use, LimitUse{Limited: l.Limited, Most: m.most[l.Limited], Used: m.usedOf(i)})
		}
		all = append(all, use)
	}
	return all
}

// Problem says which quotas a rule has used up, for its listing to a visitor with a prefix; empty: none.
func (q *Quotas) Problem(rule, visitor string) string {
	s := q.current.Load()
	for _, what := range []struct {
		Limited
		at int
	}{{LimitJobs, atJobs}, {LimitJobBytes, atJobBytes}, {LimitAlerts, atAlerts}, {LimitAlertBytes, atBytes}} {
		for _, m := range s.of(what.Limited, rule) {
			if most := m.most[what.Limited]; m.usedOf(what.at) >= most {
				return m.ExceededTo(visitor, what.Limited, most).Error()
			}
		}
	}
	return ""
}

// RulesLeft refuses a new rule of a tenant where the rules that there are use up a quota. quotas are those of all prefixes.
func RulesLeft(quotas []Quota, there []string, rule, tenant string) error {
	s := newQuotaSet(quotas, 0, nil)
	for _, m := range s.of(LimitRules, rule) {
		n, most := int64(0), m.most[LimitRules]
		for _, name := range there {
			if slices.Contains(s.of(LimitRules, name), m) {
				n++
			}
		}
		if n >= most {
			return m.ExceededTo(tenant, LimitRules, most)
		}
	}
	return nil
}
