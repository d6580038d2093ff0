package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	futurejobs "deadman/future_jobs"
)

var (
	// ErrQuota means that a quota of a prefix is used up.
	ErrQuota = errors.New("the quota is used up")
	// ErrNoQuota means that no quota of a prefix was set. It is futurejobs.ErrNotFound, too.
	ErrNoQuota = fmt.Errorf("quota %w; `deadman quota list` shows all", futurejobs.ErrNotFound)
)

// Limited is one of the things that a quota limits.
type Limited string

// The things that a quota limits. Each has a row in Limits.
const (
	LimitRules      Limited = "rules"
	LimitJobs       Limited = "jobs"
	LimitJobBytes   Limited = "job_bytes"
	LimitEvents     Limited = "events"
	LimitEventBytes Limited = "event_bytes"
	LimitAlerts     Limited = "alerts"
	LimitAlertBytes Limited = "alert_bytes"
)

// Limit describes one of the things that a quota limits.
type Limit struct {
	Limited
	Default int64  // of a prefix for which nothing else was set; 0: a tenth of the stream of alerts
	Unit    string // of a number of them
	Bytes   bool   // it is a size
	Beyond  string // what becomes of more, as docs/access.md and errors say it
}

// Limits are all things that a quota limits, in the order in which they are shown.
var Limits = []Limit{
	{LimitRules, 200, "rules", false, "a token with a prefix saves no new rule; rules that are there can be changed and deleted"},
	{LimitJobs, 100_000, "pending jobs", false, "no job begins: its event is a dead letter, a request is refused; pending jobs go on, change and end"},
	{LimitJobBytes, 1 << 30, "bytes of pending jobs", true, "as of `jobs`"},
	{LimitEvents, 1000, "events a second", false, "an event that a token with the prefix publishes is refused (429); an event of a schedule waits"},
	{LimitEventBytes, 1 << 20, "bytes of events a second", true, "as of `events`"},
	{LimitAlerts, 10_000, "alerts an hour", false, "an alert is kept, listed and notified, and not published"},
	{LimitAlertBytes, 0, "bytes in the stream of alerts", true, "an alert is kept, listed and notified, and not published"},
}

// limitOf describes a thing that a quota limits.
func limitOf(what Limited) Limit {
	for _, l := range Limits {
		if l.Limited == what {
			return l
		}
	}
	return Limit{Limited: what}
}

// MaxLimit is the highest that a limit may be.
const MaxLimit = 1 << 50

// Quota is what the rules and tokens of a prefix may take in all.
type Quota struct {
	Prefix string            // what the names of the rules begin with
	Set    map[Limited]int64 // the limits that were set; for the others their defaults hold
	SetAt  time.Time         // zero: nothing was ever set
	SetBy  string
}

// Covers reports whether a rule counts toward the quota.
func (q Quota) Covers(rule string) bool { return strings.HasPrefix(rule, q.Prefix) }

// Most returns the limit of a thing. room is the most bytes that the stream of alerts may have; 0: as many as there are.
func (q Quota) Most(what Limited, room int64) int64 {
	if most, set := q.Set[what]; set {
		return most
	}
	if most := limitOf(what).Default; most > 0 {
		return most
	}
	if room <= 0 {
		room = alertRoom
	}
	return room / 10
}

// alertRoom stands for the bytes of a stream of alerts that has no limit.
const alertRoom = 1 << 30

// ReadQuota returns a quota in its one form, or Problems: the prefix is that of a token, and no limit is negative.
func ReadQuota(prefix string, set map[Limited]int64) (Quota, error) {
	var ps Problems
	say := func(field, format string, args ...any) { ps = append(ps, Problem{field, fmt.Sprintf(format, args...)}) }
	w := TokenRequest{Prefix: prefix}
	if prefix == "" {
		say("prefix", `it is empty; write what the names of the rules begin with, such as "acme-*"`)
	}
	w.readPrefix(say)
	for what, most := range set {
		if most < 0 || most > MaxLimit {
			say(string(what), "%d is not within 0 and %d; leave the limit out for the default", most, int64(MaxLimit))
		}
	}
	if ps != nil {
		return Quota{}, ps
	}
	return Quota{Prefix: w.Prefix, Set: set}, nil
}

// Exceeded returns why a limit refuses something: which limit of which prefix, and the remedy. It tells nothing of other prefixes, and is
// the same as long as the limit is.
func (q Quota) Exceeded(what Limited, most int64) error {
	return fmt.Errorf("the rules %s* have all of their %d %s: %w; %s, or ask an admin for more: deadman quota set '%s*' --%s N",
		q.Prefix, most, limitOf(what).Unit, ErrQuota, remedies[what], q.Prefix, strings.ReplaceAll(string(what), "_", "-"))
}

// ExceededTo is Exceeded as a tenant is told. A tenant below a shorter prefix learns that there is a limit, and neither whose it is nor how much.
func (q Quota) ExceededTo(tenant string, what Limited, most int64) error {
	if len(q.Prefix) >= len(tenant) {
		return q.Exceeded(what, most)
	}
	return fmt.Errorf("the rules %s* have no more %s, by an outer limit that an admin set: %w; %s, or ask an admin, who finds the limit by `deadman quota list`",
		tenant, limitOf(what).Unit, ErrQuota, remedies[what])
}

// remedies are what else helps.
var remedies = map[Limited]string{
	LimitRules:      "delete a rule",
	LimitJobs:       "end jobs, then retry the rule's dead letters",
	LimitJobBytes:   "end jobs, then retry the rule's dead letters",
	LimitEvents:     "send fewer",
	LimitEventBytes: "send fewer or smaller ones",
	LimitAlerts:     "have the rules alert less",
	LimitAlertBytes: "have the rules alert less, with shorter texts and events",
}

// QuotaUse is a quota and what is used of it.
type QuotaUse struct {
	Quota
	Use []LimitUse // in the order of Limits
}

// LimitUse is what is used of one thing that a quota limits.
type LimitUse struct {
	Limited
	Most      int64
	Used      int64
	Refused   int64     // how often something was refused
	RefusedAt time.Time // when last; zero: never
}

// QuotaTable is Limits as a table in Markdown.
func QuotaTable() string {
	var b strings.Builder
	b.WriteString("| limit, flag | of the rules with the prefix | default | beyond it |\n|---|---|---|---|\n")
	for _, l := range Limits {
		most := fmt.Sprint(l.Default)
		switch {
		case l.Default == 0:
			most = "a tenth of the stream's cap"
		case l.Bytes:
			most = humanize.IBytes(uint64(l.Default)) //nolint:gosec // not below 0
		}
		fmt.Fprintf(&b, "| `%s`, `--%s` | %s | %s | %s |\n", l.Limited, strings.ReplaceAll(string(l.Limited), "_", "-"), l.Unit, most, l.Beyond)
	}
	return b.String()
}
