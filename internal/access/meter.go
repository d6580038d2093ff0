package access

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// meter counts the use of a quota.
type meter struct {
	Quota
	limits  map[Limited]int64 // of all resources
	jobs    *jobCount
	used    [limits]atomic.Int64 // except jobs
	refused [limits]atomic.Int64 // since the last Take
	spent   [spends]atomic.Int64 // since the last Take
	bodies  atomic.Int64         // bytes of bodies of pings since the last CountPingBodies
	events  *rate.Limiter
	bytes   *rate.Limiter // of event bytes
}

// limits is the number of Limits; the counters of a meter are in that order.
const limits = 13

// The indexes of a meter's counters.
const (
	atRules = iota
	atRuleBytes
	atSubjects
	atSchedules
	atJobs
	atJobBytes
	atEvents
	atEventBytes
	atAlerts
	atBytes
	atKeptAlertBytes
	atKeptAnswerBytes
	atKeptPingBytes
)

// countedAt has the counter of each resource that the database counts by rule.
var countedAt = map[Limited]int{LimitRules: atRules, LimitRuleBytes: atRuleBytes, LimitSchedules: atSchedules, LimitJobs: atJobs, LimitJobBytes: atJobBytes, LimitKeptPingBytes: atKeptPingBytes}

// spends is the number of counts in Spent.
const spends = 4

// spentAt has the counter of each count in Spent.
var spentAt = [spends]int{SpentAlerts: atAlerts, SpentAlertBytes: atBytes, SpentKeptAlertBytes: atKeptAlertBytes, SpentKeptAnswerBytes: atKeptAnswerBytes}

// spend counts the use of a resource that nodes count in the database. The count since the last Take grows first, as
// learnSpent expects.
func (m *meter) spend(what int, n int64) {
	m.spent[what].Add(n)
	m.used[spentAt[what]].Add(n)
}

// continueFrom takes over the counts of an earlier meter of the prefix.
func (m *meter) continueFrom(known *meter) {
	m.jobs = known.jobs
	for i := range limits {
		m.used[i].Store(known.used[i].Load())
		m.refused[i].Add(known.refused[i].Swap(0))
	}
	for i := range m.spent {
		m.spent[i].Add(known.spent[i].Swap(0))
	}
	m.bodies.Store(known.bodies.Load())
}

// usedOf returns the use of a resource.
func (m *meter) usedOf(at int) int64 {
	if at == atJobs {
		return m.jobs.Load()
	}
	return m.used[at].Load()
}

// learnPingBytes sets the bytes of the log of pings to those of the database, and those that came since the count began:
// the database may have them or not.
func (m *meter) learnPingBytes(counted int64) {
	before := m.used[atKeptPingBytes].Load()
	m.used[atKeptPingBytes].Add(counted + m.bodies.Load() - before)
}

// learnSpent sets the counts of Spent to those of the database, and those of this node that the database does not have
// yet. An alert published at the same moment may count twice until the next time, and never counts less than once.
func (m *meter) learnSpent(saved Spent) {
	for i, at := range spentAt {
		before := m.used[at].Load()
		m.used[at].Add(saved[i] + m.spent[i].Load() - before)
	}
}

// takeSpent returns and resets the counts since the last call.
func (m *meter) takeSpent() (s Spent) {
	for i := range m.spent {
		s[i] = m.spent[i].Swap(0)
	}
	return s
}

// largestEvent is larger than any event accepted by the API, with its headers: a full byte bucket always admits one.
const largestEvent = 512 << 10

// burstOf returns the burst of event bytes for a rate per second.
func burstOf(limit int64) int {
	if limit == 0 {
		return 0
	}
	return int(max(2*limit, largestEvent))
}

// mostWait is the longest retry delay of a scheduled event: a limit may be raised meanwhile.
const mostWait = time.Minute

// withdrawal takes an event from a bucket of a meter.
type withdrawal struct {
	*meter
	what   Limited
	at     int
	bucket *rate.Limiter
	n      int
}

// wait returns the time until the bucket suffices, in whole seconds.
func (t withdrawal) wait(now time.Time) time.Duration {
	lacks, perSecond := float64(t.n)-t.bucket.TokensAt(now), float64(t.bucket.Limit())
	if perSecond == 0 || lacks > perSecond*mostWait.Seconds() {
		return mostWait
	}
	return time.Duration(max(1, math.Ceil(lacks/perSecond))) * time.Second
}

// place returns the counter index of a limit of alerts.
func place(what Limited) int {
	if what == LimitAlertBytes {
		return atBytes
	}
	return atAlerts
}
