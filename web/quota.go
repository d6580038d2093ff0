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
	// SetQuota sets the limits of a prefix.
	SetQuota(ctx context.Context, q access.Quota) error
	// DeleteQuota resets the limits of a prefix, or returns access.ErrNoQuota.
	DeleteQuota(ctx context.Context, prefix string) error
	// Publish deducts an event of that size from the limits of a prefix, or returns access.ErrQuota and the time until a
	// retry.
	Publish(prefix string, bytes int, now time.Time) (wait time.Duration, err error)
	// Problem describes the used-up quota of a rule, to a visitor with a prefix; "" if none is used up.
	Problem(rule, visitor string) string
}

// Quota is the limits of a prefix's rules and tokens, and their use.
type Quota struct {
	Prefix string       `json:"prefix" doc:"What the names of the rules begin with." example:"acme-"`
	Limits []QuotaLimit `json:"limits" nullable:"false"`
	SetAt  time.Time    `json:"set_at,omitzero" doc:"When limits were set last; absent: never, and the defaults hold."`
	SetBy  string       `json:"set_by,omitempty"`
}

// QuotaLimit is one limit of a quota.
type QuotaLimit struct {
	Name      string    `json:"name" enum:"rules,jobs,job_bytes,events,event_bytes,alerts,alert_bytes" doc:"Rules; pending jobs, and bytes of their bodies; events a second and their bytes, of tokens and of schedules that emit, on each node; alerts an hour and bytes in the stream of alerts."`
	Most      int64     `json:"most" example:"200"`
	Default   bool      `json:"default,omitempty" doc:"It was not set."`
	Used      int64     `json:"used" doc:"As it was counted a few seconds ago; of events and their bytes always 0." example:"12"`
	Refused   int64     `json:"refused" doc:"How often the limit refused something; of alerts, how many were not published. Of rules always 0: a save that is refused is told to its client alone."`
	RefusedAt time.Time `json:"refused_at,omitzero" doc:"When last; absent: never."`
}

// QuotaLimits is the limits of a quota, as clients set them.
type QuotaLimits struct {
	Rules      *int64 `json:"rules,omitempty" doc:"Rules that tokens with a prefix may have saved; absent: 200." example:"50"`
	Jobs       *int64 `json:"jobs,omitempty" doc:"Pending jobs; absent: 100000." example:"10000"`
	JobBytes   *int64 `json:"job_bytes,omitempty" doc:"Bytes of the bodies of pending jobs; absent: 1 GiB." example:"104857600"`
	Events     *int64 `json:"events,omitempty" doc:"Events a second, on each node; absent: 1000." example:"100"`
	EventBytes *int64 `json:"event_bytes,omitempty" doc:"Bytes of events a second, on each node; absent: 1 MiB." example:"65536"`
	Alerts     *int64 `json:"alerts,omitempty" doc:"Published alerts an hour; absent: 10000." example:"1000"`
	AlertBytes *int64 `json:"alert_bytes,omitempty" doc:"Bytes in the stream of alerts; absent: a tenth of what it may have." example:"104857600"`
}

// set returns the given limits.
func (l QuotaLimits) set() map[access.Limited]int64 {
	set := make(map[access.Limited]int64)
	for what, most := range map[access.Limited]*int64{
		access.LimitRules: l.Rules, access.LimitJobs: l.Jobs, access.LimitJobBytes: l.JobBytes, access.LimitEvents: l.Events,
		access.LimitEventBytes: l.EventBytes, access.LimitAlerts: l.Alerts, access.LimitAlertBytes: l.AlertBytes,
	} {
		if most != nil {
			set[what] = *most
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
	Prefix identifier `path:"prefix" doc:"What the names of the rules begin with, with a * at the end or without." example:"acme-"`
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
		ID: "list-quotas", Tag: tagTokens, Method: "GET", Path: "/quotas", Does: "lists the quotas of prefixes and what is used of them",
		Says:  "A token with a prefix sees those of prefixes that begin with its own.",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "set-quota", Tag: tagTokens, Method: "PUT", Path: "/quotas/{prefix}", Does: "sets the limits of a prefix",
		Says:  "All limits at once: what is absent is the default. Other nodes go by them within seconds.",
		Scope: access.Admin, Reach: reachAll,
	}, withBody(a.set))
	register(all, operation{
		ID: "delete-quota", Tag: tagTokens, Method: "DELETE", Path: "/quotas/{prefix}", Does: "takes away what was set for a prefix",
		Says:  "The defaults hold from then on as long as a token with the prefix lives, and nothing after that.",
		Scope: access.Admin, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(a.remove))
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
