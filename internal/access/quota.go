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
	// ErrNoQuota means that no quota was set for a prefix. It wraps futurejobs.ErrNotFound.
	ErrNoQuota = fmt.Errorf("quota %w; `deadman quota list` shows all", futurejobs.ErrNotFound)
)

// Limited names a limited resource of a quota.
type Limited string

// The limited resources. Each has an entry in Limits.
const (
	LimitRules      Limited = "rules"
	LimitRuleBytes  Limited = "rule_bytes"
	LimitSubjects   Limited = "subjects"
	LimitSchedules  Limited = "schedules"
	LimitJobs       Limited = "jobs"
	LimitJobBytes   Limited = "job_bytes"
	LimitEvents     Limited = "events"
	LimitEventBytes Limited = "event_bytes"
	LimitAlerts     Limited = "alerts"
	LimitAlertBytes Limited = "alert_bytes"

	LimitKeptAlertBytes  Limited = "kept_alert_bytes"
	LimitKeptAnswerBytes Limited = "kept_answer_bytes"
	LimitKeptPingBytes   Limited = "kept_ping_bytes"
)

// Limit describes a limited resource.
type Limit struct {
	Limited
	Default int64  // for a prefix without a set limit; 0: a tenth of the stream of alerts
	Unit    string // unit of the number
	Bytes   bool   // the number is a size
	Beyond  string // effect of exceeding it, as shown in docs/operations/tenants.md
}

// Limits describes all limited resources, in display order.
var Limits = []Limit{
	{LimitRules, 200, "rules", false, "a token with a prefix saves no new rule; existing rules can be changed and deleted"},
	{LimitRuleBytes, 32 << 20, "bytes of kept versions of rules", true, "a token with a prefix saves no further version (422); rules can be paused and deleted. From half of it on, fewer old versions are kept"},
	{LimitSubjects, 1000, "captured subjects", false, "a token with a prefix saves no rule whose subjects the stream `DEADMAN_EVENTS` does not have yet (422); a wildcard takes the place of the subjects that it includes"},
	{LimitSchedules, 100_000, "stored schedules", false, "a token with a prefix creates no further schedule (422), also of a rule without bounds; existing ones can be replaced and deleted"},
	{LimitJobs, 100_000, "pending jobs", false, "no new job starts: its event is a dead letter, a request is refused; pending jobs go on, change and end"},
	{LimitJobBytes, 1 << 30, "bytes of pending jobs", true, "as for `jobs`"},
	{LimitEvents, 1000, "events a second", false, "an event that a token with the prefix publishes is refused (429); an event of a schedule waits"},
	{LimitEventBytes, 1 << 20, "bytes of events a second", true, "as for `events`"},
	{LimitAlerts, 10_000, "alerts an hour", false, "an alert is kept, listed and notified, and not published"},
	{LimitAlertBytes, 0, "bytes in the stream of alerts", true, "an alert is kept, listed and notified, and not published"},
	{LimitKeptAlertBytes, 1 << 30, "bytes of kept alerts", true, "an alert is kept, listed, published and notified without its event and its state (`bodies_over_quota`)"},
	{LimitKeptAnswerBytes, 256 << 20, "bytes of kept answers to requests with an `Idempotency-Key`, in 24 hours", true, "such a request is refused (429); the answers to earlier ones can be had again, and requests without the key are executed"},
	{LimitKeptPingBytes, 256 << 20, "bytes of bodies in the log of pings", true, "a ping is accepted and logged, and its body is not kept in the log"},
}

// limitOf returns the description of a resource.
func limitOf(what Limited) Limit {
	for _, l := range Limits {
		if l.Limited == what {
			return l
		}
	}
	return Limit{Limited: what}
}

// MaxLimit is the largest value of a limit.
const MaxLimit = 1 << 50

// Quota limits the combined use of the rules and tokens of a prefix.
type Quota struct {
	Prefix string            // of the rules' names
	Set    map[Limited]int64 // limits that were set; the others have their defaults
	SetAt  time.Time         // zero: never set
	SetBy  string
}

// Covers reports whether a rule counts toward the quota.
func (q Quota) Covers(rule string) bool { return strings.HasPrefix(rule, q.Prefix) }

// Most returns the limit of a resource. room is the maximum size of the stream of alerts in bytes; 0: unlimited.
func (q Quota) Most(what Limited, room int64) int64 {
	if limit, set := q.Set[what]; set {
		return limit
	}
	if limit := limitOf(what).Default; limit > 0 {
		return limit
	}
	if room <= 0 {
		room = alertRoom
	}
	return room / 10
}

// alertRoom replaces the size of an unlimited stream of alerts.
const alertRoom = 1 << 30

// ReadQuota returns a normalized quota, or Problems if the prefix is not valid for a token or a limit is out of
// range.
func ReadQuota(prefix string, set map[Limited]int64) (Quota, error) {
	var ps Problems
	report := func(field, format string, args ...any) { ps = append(ps, Problem{field, fmt.Sprintf(format, args...)}) }
	w := TokenRequest{Prefix: prefix}
	if prefix == "" {
		report("prefix", `it is empty; write what the names of the rules begin with, such as "acme-*"`)
	}
	w.readPrefix(report)
	for what, limit := range set {
		if limit < 0 || limit > MaxLimit {
			report(string(what), "%d is not within 0 and %d; leave the limit out for the default", limit, int64(MaxLimit))
		}
	}
	if ps != nil {
		return Quota{}, ps
	}
	return Quota{Prefix: w.Prefix, Set: set}, nil
}

// Exceeded returns the error of an exceeded limit: the limit, the prefix and a remedy. It discloses nothing about
// other prefixes, and is constant while the limit is.
func (q Quota) Exceeded(what Limited, limit int64) error {
	return fmt.Errorf("the rules %s* have all of their %d %s: %w; %s, or ask an admin for more: deadman quota set '%s*' --%s N",
		q.Prefix, limit, limitOf(what).Unit, ErrQuota, remedies[what], q.Prefix, strings.ReplaceAll(string(what), "_", "-"))
}

// ExceededTo is Exceeded for a tenant. For a tenant below a shorter prefix, it discloses only the existence of an
// outer limit, neither its prefix nor its value.
func (q Quota) ExceededTo(tenant string, what Limited, limit int64) error {
	if len(q.Prefix) >= len(tenant) {
		return q.Exceeded(what, limit)
	}
	return fmt.Errorf("the rules %s* have no more %s, by an outer limit that an admin set: %w; %s, or ask an admin, who finds the limit by `deadman quota list`",
		tenant, limitOf(what).Unit, ErrQuota, remedies[what])
}

// remedies are the remedies beside a higher limit.
var remedies = map[Limited]string{
	LimitRules:      "delete a rule",
	LimitRuleBytes:  "save fewer or smaller versions, retry in ten minutes, when old versions are deleted",
	LimitSubjects:   "read a wildcard in place of many subjects",
	LimitSchedules:  "delete schedules (those of a deleted rule are gone within ten minutes)",
	LimitJobs:       "end jobs, then retry the rule's dead letters",
	LimitJobBytes:   "end jobs, then retry the rule's dead letters",
	LimitEvents:     "send fewer",
	LimitEventBytes: "send fewer or smaller ones",
	LimitAlerts:     "have the rules alert less",
	LimitAlertBytes: "have the rules alert less, with shorter texts and events",

	LimitKeptAlertBytes:  "have the rules alert less, or publish smaller events",
	LimitKeptAnswerBytes: "send the request without its Idempotency-Key, or some hours later",
	LimitKeptPingBytes:   "send shorter bodies",
}

// QuotaUse is a quota with its use.
type QuotaUse struct {
	Quota
	Use []LimitUse // in the order of Limits
}

// LimitUse is the use of a limited resource.
type LimitUse struct {
	Limited
	Most      int64
	Used      int64
	Refused   int64     // number of refusals
	RefusedAt time.Time // time of the last refusal; zero: never
}

// QuotaTable returns Limits as a Markdown table.
func QuotaTable() string {
	var b strings.Builder
	b.WriteString("| limit, flag | of the rules with the prefix | default | beyond it |\n|---|---|---|---|\n")
	for _, l := range Limits {
		limit := fmt.Sprint(l.Default)
		switch {
		case l.Default == 0:
			limit = "a tenth of the stream's cap"
		case l.Bytes:
			limit = humanize.IBytes(uint64(l.Default)) //nolint:gosec // not below 0
		}
		fmt.Fprintf(&b, "| `%s`, `--%s` | %s | %s | %s |\n", l.Limited, strings.ReplaceAll(string(l.Limited), "_", "-"), l.Unit, limit, l.Beyond)
	}
	return b.String()
}
