package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"deadman/internal/access"
)

// Quotas bounds the resources of a prefix's rules and tokens. Implementations are safe for concurrent use.
type Quotas interface {
	// QuotaUses returns the quotas of all prefixes that begin with prefix, sorted.
	QuotaUses(ctx context.Context, prefix string) ([]access.QuotaUse, error)
	// Ensure makes the quota of a prefix known to this node, if it is not yet. The prefix is that of a live token, or of a
	// grant to persons, and so has a quota.
	Ensure(ctx context.Context, prefix string) error
	// SetQuota sets the limits of a prefix.
	SetQuota(ctx context.Context, q access.Quota) error
	// DeleteQuota resets the limits of a prefix, or returns access.ErrNoQuota.
	DeleteQuota(ctx context.Context, prefix string) error
	// Publish deducts an event of that size from the limits of a prefix, or returns access.ErrQuota and the time until a
	// retry.
	Publish(prefix string, bytes int, now time.Time) (wait time.Duration, err error)
	// MayKeepAnswer returns access.ErrQuota if a prefix may not keep another answer to a request with an Idempotency-Key.
	MayKeepAnswer(prefix string) error
	// KeepAnswer counts a kept answer with a body of that many bytes.
	KeepAnswer(prefix string, bytes int)
	// Problem describes the used-up quota of a rule, to a visitor with a prefix; "" if none is used up.
	Problem(rule, visitor string) string
}

// Quota is the limits of a prefix's rules and tokens, and their use.
type Quota struct {
	Prefix string       `json:"prefix" doc:"Rule name prefix." example:"acme-"`
	Limits []QuotaLimit `json:"limits" nullable:"false" doc:"Limits and their usage."`
	SetAt  time.Time    `json:"set_at,omitzero" doc:"Time of the last change. Absent if all limits are defaults."`
	SetBy  string       `json:"set_by,omitempty" doc:"Actor of the last change."`
}

// QuotaLimit is one limit of a quota.
type QuotaLimit struct {
	Name      string    `json:"name" enum:"rules,rule_bytes,subjects,schedules,jobs,job_bytes,events,event_bytes,alerts,alert_bytes,kept_alert_bytes,kept_answer_bytes,kept_ping_bytes" doc:"rules: number of rules. rule_bytes: bytes of their kept versions. subjects: subjects within the bounds of the tokens that the stream DEADMAN_EVENTS captures. schedules: stored schedules. jobs: pending jobs. job_bytes: bytes of their bodies. events, event_bytes: events and bytes per second on each node, of tokens and of schedules that emit events, with each tick of a stored schedule. alerts: alerts per hour. alert_bytes: bytes in the alerts stream. kept_alert_bytes: bytes of kept alerts. kept_answer_bytes: bytes of kept answers to requests with an Idempotency-Key, in 24 hours. kept_ping_bytes: bytes of bodies in the log of pings."`
	Limit     int64     `json:"limit" doc:"Value of the limit." example:"200"`
	Default   bool      `json:"default,omitempty" doc:"Whether the limit is the default."`
	Used      int64     `json:"used" doc:"Usage, as counted a few seconds ago. Always 0 for events and event_bytes." example:"12"`
	Refused   int64     `json:"refused" doc:"Number of refusals because of the limit; for alerts, the number of unpublished alerts; for kept_alert_bytes, the number of alerts without event and state; for kept_ping_bytes, the number of pings logged without their body. Always 0 for rules, rule_bytes, subjects and schedules, whose clients get an error."`
	RefusedAt time.Time `json:"refused_at,omitzero" doc:"Time of the last refusal. Absent if there was none."`
}

// QuotaLimits is the limits of a quota, as clients set them.
type QuotaLimits struct {
	Rules      *int64 `json:"rules,omitempty" doc:"Rules that tokens with the prefix may save. Default: 200." example:"50"`
	RuleBytes  *int64 `json:"rule_bytes,omitempty" doc:"Bytes of kept versions of rules: documents and texts of authors. Default: 32 MiB." example:"8388608"`
	Subjects   *int64 `json:"subjects,omitempty" doc:"Subjects within the bounds of a token with the prefix that the stream DEADMAN_EVENTS captures. Default: 1000." example:"100"`
	Schedules  *int64 `json:"schedules,omitempty" doc:"Stored schedules that tokens with the prefix may create. Default: 100000." example:"10000"`
	Jobs       *int64 `json:"jobs,omitempty" doc:"Pending jobs. Default: 100000." example:"10000"`
	JobBytes   *int64 `json:"job_bytes,omitempty" doc:"Bytes of the bodies of pending jobs. Default: 1 GiB." example:"104857600"`
	Events     *int64 `json:"events,omitempty" doc:"Events per second on each node. Default: 1000." example:"100"`
	EventBytes *int64 `json:"event_bytes,omitempty" doc:"Bytes of events per second on each node. Default: 1 MiB." example:"65536"`
	Alerts     *int64 `json:"alerts,omitempty" doc:"Published alerts per hour. Default: 10000." example:"1000"`
	AlertBytes *int64 `json:"alert_bytes,omitempty" doc:"Bytes in the alerts stream. Default: a tenth of the maximum size of the stream." example:"104857600"`

	KeptAlertBytes  *int64 `json:"kept_alert_bytes,omitempty" doc:"Bytes of kept alerts. Default: 1 GiB." example:"104857600"`
	KeptAnswerBytes *int64 `json:"kept_answer_bytes,omitempty" doc:"Bytes of kept answers to requests with an Idempotency-Key, in 24 hours. Default: 256 MiB." example:"10485760"`
	KeptPingBytes   *int64 `json:"kept_ping_bytes,omitempty" doc:"Bytes of bodies in the log of pings. Default: 256 MiB." example:"10485760"`
}

// set returns the given limits.
func (l QuotaLimits) set() map[access.Limited]int64 {
	set := make(map[access.Limited]int64)
	for what, limit := range map[access.Limited]*int64{
		access.LimitRules: l.Rules, access.LimitRuleBytes: l.RuleBytes, access.LimitSubjects: l.Subjects, access.LimitSchedules: l.Schedules, access.LimitJobs: l.Jobs, access.LimitJobBytes: l.JobBytes, access.LimitEvents: l.Events,
		access.LimitEventBytes: l.EventBytes, access.LimitAlerts: l.Alerts, access.LimitAlertBytes: l.AlertBytes,
		access.LimitKeptAlertBytes: l.KeptAlertBytes, access.LimitKeptAnswerBytes: l.KeptAnswerBytes, access.LimitKeptPingBytes: l.KeptPingBytes,
	} {
		if limit != nil {
			set[what] = *limit
		}
	}
	return set
}

func newQuota(use access.QuotaUse) Quota {
	q := Quota{Prefix: use.Prefix, SetAt: use.SetAt, SetBy: use.SetBy, Limits: []QuotaLimit{}}
	for _, l := range use.Use {
		_, set := use.Set[l.Limited]
		q.Limits = append(q.Limits, QuotaLimit{string(l.Limited), l.Most, !set, l.Used, l.Refused, l.RefusedAt})
	}
	return q
}

// QuotaPath is the prefix in the path.
type QuotaPath struct {
	Prefix identifier `path:"prefix" doc:"Rule name prefix, with or without a * at the end." example:"acme-"`
}

// quotaIn is a request that sets limits.
type quotaIn struct {
	QuotaPath
	Body QuotaLimits
}

// quotaAPI has the operations on quotas, and applies the quotas to requests.
type quotaAPI struct {
	quotas Quotas // nil: the node has none
	now    func() time.Time
}

// register registers the operations on quotas. A node without quotas has none.
func (a *quotaAPI) register(all *operations) {
	if a.quotas == nil {
		return
	}
	register(all, operation{
		ID: "list-quotas", Tag: tagTokens, Method: "GET", Path: "/quotas", Summary: "list quotas of prefixes and their usage",
		Description: "A token with a prefix sees the quotas of prefixes that begin with its own.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "set-quota", Tag: tagTokens, Method: "PUT", Path: "/quotas/{prefix}", Summary: "set the quota of a prefix",
		Description: "Replaces all limits. Absent limits are reset to their defaults. Other nodes apply the change within seconds.",
		Scope:       access.Admin, Reach: reachAll,
	}, withBody(a.set))
	register(all, operation{
		ID: "delete-quota", Tag: tagTokens, Method: "DELETE", Path: "/quotas/{prefix}", Summary: "delete the quota of a prefix",
		Description: "The defaults apply while a token with the prefix exists.",
		Scope:       access.Admin, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(a.remove))
}

// listFor makes the quota of a new token's prefix appear in the list at once. If it fails, the token's first request does
// that.
func (a *quotaAPI) listFor(ctx context.Context, prefix string) {
	if a.quotas != nil {
		_ = a.quotas.Ensure(ctx, prefix)
	}
}

func (a *quotaAPI) list(ctx context.Context, _ *nothing) (Page[Quota], error) {
	page := Page[Quota]{Items: []Quota{}}
	uses, err := a.quotas.QuotaUses(ctx, principalOf(ctx).token.Prefix)
	for _, use := range uses {
		page.Items = append(page.Items, newQuota(use))
	}
	return page, err
}

func (a *quotaAPI) set(ctx context.Context, in *quotaIn) (Quota, error) {
	q, err := access.ReadQuota(string(in.Prefix), in.Body.set())
	if err != nil {
		return Quota{}, err
	}
	if err := a.quotas.SetQuota(ctx, q); err != nil {
		return Quota{}, err
	}
	uses, err := a.quotas.QuotaUses(ctx, q.Prefix)
	if err != nil || len(uses) == 0 {
		return Quota{Prefix: q.Prefix, Limits: []QuotaLimit{}}, err
	}
	return newQuota(uses[0]), nil
}

func (a *quotaAPI) remove(ctx context.Context, in *QuotaPath) error {
	return a.quotas.DeleteQuota(ctx, strings.TrimSuffix(string(in.Prefix), "*"))
}

// withinQuota deducts an event of that size from the limits of the visitor's prefix.
func (a *quotaAPI) withinQuota(ctx context.Context, bytes int) error {
	prefix := principalOf(ctx).token.Prefix
	if prefix == "" || a.quotas == nil {
		return nil
	}
	wait, err := a.quotas.Publish(prefix, bytes, a.now())
	if err == nil {
		return nil
	}
	p := problemIs(QuotaUsedUp, http.StatusTooManyRequests, "%v", err)
	p.retry = wait
	return p
}

// answerPause is the time after which a refused request with an Idempotency-Key may be tried again: answers of a whole
// hour leave the count together.
const answerPause = time.Hour

// bounds reports whether quotas apply to the visitor.
func (a *quotaAPI) bounds(ctx context.Context) bool {
	return principalOf(ctx).token.Prefix != "" && a.quotas != nil
}

// mayKeepAnswer returns an error if the prefix of a visitor with quotas may not keep another answer.
func (a *quotaAPI) mayKeepAnswer(ctx context.Context) error {
	err := a.quotas.MayKeepAnswer(principalOf(ctx).token.Prefix)
	if err == nil {
		return nil
	}
	p := problemIs(QuotaUsedUp, http.StatusTooManyRequests, "%v", err)
	p.retry = answerPause
	return p
}

// keepAnswer counts a kept answer of the visitor.
func (a *quotaAPI) keepAnswer(ctx context.Context, bytes int) {
	if a.bounds(ctx) {
		a.quotas.KeepAnswer(principalOf(ctx).token.Prefix, bytes)
	}
}

// overQuota adds the used-up quota to a rule.
func (a *quotaAPI) overQuota(ctx context.Context, r Rule) Rule {
	if a.quotas != nil {
		r.OverQuota = a.quotas.Problem(r.Name, principalOf(ctx).token.Prefix)
	}
	return r
}

// ownQuota returns the quota of the visitor's prefix, or nil.
func (a *quotaAPI) ownQuota(ctx context.Context) (*Quota, error) {
	prefix := principalOf(ctx).token.Prefix
	if prefix == "" || a.quotas == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	uses, err := a.quotas.QuotaUses(ctx, prefix)
	if err != nil || len(uses) == 0 || uses[0].Prefix != prefix {
		return nil, err
	}
	q := newQuota(uses[0])
	return &q, nil
}
