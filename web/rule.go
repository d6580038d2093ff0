package web

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// Rules reads and changes rules. rules.Registry implements it, and documents the errors. Implementations are safe for
// concurrent use.
type Rules interface {
	RuleVersions
	List(ctx context.Context) ([]rules.ListedRule, error)
	Save(ctx context.Context, text []byte, name string, o rules.SaveOptions) (rules.Change, error)
	Delete(ctx context.Context, name string, version int32, bundle string) error
	Pause(ctx context.Context, name string, paused bool) error
	Preview(ctx context.Context, request rules.PreviewRequest) (rules.Preview, error)
	Replayable(ctx context.Context, text []byte, name string, version int32) (rules.Replayable, error)
}

// RuleVersions reads rules and their versions. Implementations are safe for concurrent use.
type RuleVersions interface {
	// Get returns a rule with its newest version, or futurejobs.ErrNotFound.
	Get(ctx context.Context, name string) (rules.ListedRule, error)
	// Versions returns all versions of a rule, newest first, or futurejobs.ErrNotFound.
	Versions(ctx context.Context, name string) ([]rules.RuleVersion, error)
	// Text returns a version as YAML.
	Text(ctx context.Context, v rules.RuleVersion) ([]byte, error)
	// Diff returns the changes between two versions as a unified diff.
	Diff(ctx context.Context, name string, from, to int32) (string, error)
}

var _ Rules = (*rules.Registry)(nil)

// Rule is a rule's newest version, as the API returns it without its document.
type Rule struct {
	Name          string    `json:"name" doc:"Name of the rule." example:"order-unshipped"`
	Entity        string    `json:"entity" doc:"Entity type." example:"order"`
	Description   string    `json:"description,omitempty" doc:"Description of the rule."`
	Enabled       bool      `json:"enabled" doc:"Value of enabled in the document. If false, no new jobs are created."`
	Version       int32     `json:"version" doc:"Newest version; also the ETag. 0 in a dry run that would create the rule."`
	Bundle        string    `json:"bundle,omitempty" doc:"Bundle of files that the rule belongs to, and is changed in. Absent if it is managed by the API." example:"file:orders"`
	SavedAt       time.Time `json:"saved_at,omitzero" doc:"Time at which the newest version was saved."`
	SavedBy       string    `json:"saved_by,omitempty" doc:"Actor who saved the newest version."`
	PausedAt      time.Time `json:"paused_at,omitzero" doc:"Time at which the rule was paused. Absent if it is not paused."`
	PausedBy      string    `json:"paused_by,omitempty" doc:"Actor who paused the rule. deadman (costly): the node paused it because its expressions or effects cost too much; its events become dead letters." example:"ada"`
	Subjects      []string  `json:"subjects" nullable:"false" doc:"Subjects that the rule subscribes to."`
	Schedule      string    `json:"schedule,omitempty" doc:"Schedule of the rule." example:"30 1 * * 1-5"`
	NextTickAt    time.Time `json:"next_tick_at,omitzero" doc:"Time of the next tick. Ticks of a paused or disabled rule have no effect."`
	ScheduleEnded bool      `json:"schedule_ended,omitempty" doc:"Whether the schedule has no further ticks."`
	NeverReported bool      `json:"never_reported,omitempty" doc:"Whether the rule has a heartbeat without keys and nothing ever reported to it: it has no job and none in history, so it watches nothing. Returned in lists only, after the first count."`
	Problem       string    `json:"problem,omitempty" doc:"Reason why this version of deadman cannot read the rule."`
	OverQuota     string    `json:"over_quota,omitempty" doc:"Quota that is used up, and the remedy. New jobs are refused, or alerts are not published or lack event and state, until there is room. Absent if none is."`
	Jobs          *RuleJobs `json:"jobs,omitempty" doc:"Job counts of the rule. Returned in lists only, after the first count."`
	LastDay       *RuleDay  `json:"last_day,omitempty" doc:"Ended jobs of the rule in the last 24 counted hours. Returned in lists only, after the first count. Absent if none ended."`
}

func newRule(l rules.ListedRule, now time.Time) Rule {
	r := Rule{
		Name: l.Name, Entity: l.Entity, Description: l.Document.Description, Enabled: l.Document.Enabled,
		Version: l.Version, Bundle: l.Bundle, SavedAt: l.SavedAt, SavedBy: l.SavedBy,
		PausedAt: l.PausedAt, PausedBy: l.PausedBy, Subjects: []string{},
	}
	for _, read := range l.Reads {
		r.Subjects = append(r.Subjects, read.Subject)
	}
	if l.Err != nil {
		r.Problem = l.Err.Error()
	}
	if at, ticks := l.NextTick(now); ticks {
		r.Schedule, r.ScheduleEnded = l.Document.Trigger.Schedule, at.IsZero()
		if l.Document.Enabled && l.PausedAt.IsZero() {
			r.NextTickAt = at
		}
	}
	return r
}

// Halted reports whether the rule is paused because its expressions cost too much.
func (r Rule) Halted() bool { return !r.PausedAt.IsZero() && r.PausedBy == rules.HaltedBy }

// isIn reports whether the rule is in a state, for the filter of lists. A rule that is paused and disabled is in both.
func (r Rule) isIn(state string) bool {
	return r.state() == state || state == "disabled" && r.Problem == "" && !r.Enabled
}

// state returns the first state of the rule.
func (r Rule) state() string {
	switch {
	case r.Problem != "":
		return "unreadable"
	case !r.PausedAt.IsZero():
		return "paused"
	case !r.Enabled:
		return "disabled"
	case r.ScheduleEnded:
		return "schedule_ended"
	case r.NeverReported:
		return "never_reported"
	}
	return "enabled"
}

// RuleName is the rule in the path.
type RuleName struct {
	Name identifier `path:"name" doc:"Name of the rule." example:"order-unshipped"`
}

// ruleAPI has the operations on rules.
type ruleAPI struct {
	rules   Rules
	folders *ruleFolders
	jobs    *ruleJobCounts
	quotas  *quotaAPI
	lints   *lintAPI

	retention *retentionAPI

	saves *semaphore[tokenRef]
	now   func() time.Time
}

// register registers the operations on rules.
func (a *ruleAPI) register(all *operations) {
	register(all, operation{
		ID: "list-rules", Tag: tagRules, Method: "GET", Path: "/rules", Summary: "list rules, by name",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-rule", Tag: tagRules, Method: "POST", Path: "/rules", Summary: "create a rule",
		Description: "If a rule with this name exists, the response is 409; PUT /rules/{name} replaces it.",
		Scope:       access.Rules, Reach: reachBody, Status: http.StatusCreated, IdempotencyKey: true, Limit: document.MaxSize,
		Errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}, RequestBody: documentBody(), Responses: changeAnswers(),
	}, inTurn(a.saves, a.create))
	register(all, operation{
		ID: "lint-rule", Tag: tagRules, Method: "POST", Path: "/rules/lint", Summary: "validate a rule without saving it",
		Description: "The status is 200 for invalid rules, too. Lookups are validated against their sources, without running them, if the token has " +
			"the scope rules.",
		Scope: access.Read, Reach: reachPublic, Limit: document.MaxSize,
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}, RequestBody: documentBody(),
	}, withBody(inTurnOf(a.lints.trials, principal.tenant, a.lints.lint)))
	register(all, operation{
		ID: "get-rule", Tag: tagRules, Method: "GET", Path: "/rules/{name}", Summary: "get the document of a rule, as JSON or YAML",
		Description: "Accept: application/yaml returns YAML. GET /rules?name= returns the state of the rule, such as its next tick.",
		Scope:       access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound}, Responses: documentAnswer(),
	}, a.get)
	register(all, operation{
		ID: "put-rule", Tag: tagRules, Method: "PUT", Path: "/rules/{name}", Summary: "create or replace a rule",
		Description: "With If-Match, only that version is replaced. With If-None-Match: *, the rule is only created. Otherwise the response is 412. An " +
			"unchanged document creates no new version.",
		Scope: access.Rules, Reach: reachRule, Limit: document.MaxSize,
		Errors:      []int{http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
		RequestBody: documentBody(), Responses: changeAnswers(),
	}, inTurn(a.saves, a.put))
	register(all, operation{
		ID: "delete-rule", Tag: tagRules, Method: "DELETE", Path: "/rules/{name}", Summary: "delete a rule and cancel its jobs",
		Scope: access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed},
	}, noContent(a.remove))
	for _, paused := range []bool{true, false} {
		verb, does := "resume", "resume a rule"
		if paused {
			verb, does = "pause", "pause a rule: it creates no new jobs"
		}
		register(all, operation{
			ID: verb + "-rule", Tag: tagRules, Method: "POST", Path: "/rules/{name}/" + verb, Summary: does,
			Description: "Pending jobs continue, and with them the alerts of missing heartbeats; a mute suppresses their messages. Saving the rule or applying files does not change whether it is paused.",
			Scope:       access.Rules, Reach: reachRule, IdempotencyKey: true, Errors: []int{http.StatusNotFound},
		}, withBody(a.pause(paused)))
	}
}

// ruleListIn has the filters of a rule list.
type ruleListIn struct {
	Name   identifier `query:"name" doc:"Filter by exact name." example:"order-unshipped"`
	Prefix identifier `query:"prefix" doc:"Filter by a prefix of the name." example:"order-"`
	Entity identifier `query:"entity" doc:"Filter by entity type." example:"order"`
	Bundle identifier `query:"bundle" doc:"Filter by bundle." example:"file:orders"`
	Text   identifier `query:"text" doc:"Filter by text in the name, description, entity or subjects; case-insensitive." example:"shipped"`
	State  string     `query:"state" enum:"enabled,paused,disabled,schedule_ended,never_reported,unreadable" doc:"Filter by state. enabled: creates jobs. paused: paused by an actor. disabled: disabled in the document; a rule that is paused as well is in both states. schedule_ended: the schedule has no further ticks. never_reported: a heartbeat without keys that nothing ever reported to. unreadable: this version of deadman cannot read the rule."`
	Paused string     `query:"paused" enum:"true,false" doc:"Filter by paused."`
	Paging
}

func (in *ruleListIn) wants(l rules.ListedRule) bool {
	is := func(want identifier, is string) bool { return want == "" || string(want) == is }
	return is(in.Name, l.Name) && is(in.Entity, l.Entity) && is(in.Bundle, l.Bundle) &&
		strings.HasPrefix(l.Name, string(in.Prefix)) && has(l, string(in.Text)) &&
		(in.Paused == "" || in.Paused == strconv.FormatBool(!l.PausedAt.IsZero()))
}

// has reports whether a rule's name, entity, description or subjects contain a text.
func has(l rules.ListedRule, text string) bool {
	text = strings.ToLower(text)
	known := []string{l.Name, l.Entity, l.Document.Description}
	for _, read := range l.Reads {
		known = append(known, read.Subject)
	}
	return slices.ContainsFunc(known, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// ruleCursor is the prefix of the cursor of a rule list, before the last name of the page.
const ruleCursor = "rule:"

func (a *ruleAPI) list(ctx context.Context, in *ruleListIn) (Page[Rule], error) {
	after, err := readRuleCursor(in.Cursor)
	if err != nil {
		return Page[Rule]{}, err
	}
	all, err := a.rules.List(ctx)
	if err != nil {
		return Page[Rule]{}, err
	}
	v, page, jobs, now := principalOf(ctx), Page[Rule]{Items: []Rule{}}, a.jobs.last(ctx), a.now()
	for _, l := range all { // by name
		switch {
		case l.Name <= after || !v.canSee(l.Name) || !in.wants(l) || in.State != "" && !jobs.add(newRule(l, now), l).isIn(in.State):
		case len(page.Items) == in.Limit:
			last := page.Items[in.Limit-1].Name
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(ruleCursor + last))
			return page, nil
		default:
			page.Items = append(page.Items, a.quotas.overQuota(ctx, jobs.add(newRule(l, now), l)))
		}
	}
	return page, nil
}

// readRuleCursor returns the last name of the previous page; "" without a cursor.
func readRuleCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	after, ours := strings.CutPrefix(string(text), ruleCursor)
	if err != nil || !ours {
		return "", futurejobs.ErrBadCursor
	}
	return after, nil
}

// ruleIn is a rule, with the media type of its document.
type ruleIn struct {
	RuleName
	Accept string `header:"Accept" hidden:"true"`
}

func (a *ruleAPI) get(ctx context.Context, in *ruleIn) (*ruleOut, error) {
	l, err := a.rules.Get(ctx, string(in.Name))
	if err != nil {
		return nil, err
	}
	return documentOut(ctx, a.rules, l.RuleVersion, in.Accept)
}

func (a *ruleAPI) create(ctx context.Context, in *SaveRuleInput) (*changeOut, error) {
	if err := a.folders.mayAddTo(ctx, string(in.Bundle)); err != nil {
		return nil, err
	}
	options, err := in.options(0, a.now())
	if err != nil {
		return nil, err
	}
	options.May = mayName(ctx, access.Rules)
	c, err := a.rules.Save(ctx, in.RawBody, "", options)
	if errors.Is(err, rules.ErrConflict) {
		name := "{name}" // unknown if another request was faster
		if existing := (rules.ExistingRule{}); errors.As(err, &existing) {
			name = existing.Name
		}
		return nil, problemIs(RuleConflict, http.StatusConflict, "%v; PUT /api/v1/rules/%s replaces it", err, name)
	}
	if err != nil {
		return nil, err
	}
	return a.retention.change(ctx, c, in.DryRun)
}

// mayName refuses rules outside the prefix of the visitor's token, for rules named in a text instead of the path.
func mayName(ctx context.Context, s access.Scope) func(name string) error {
	v := principalOf(ctx)
	return func(name string) error { return v.requireRule(s, name) }
}

// RulePrecondition is the version that a change requires.
type RulePrecondition struct {
	IfMatch     string `header:"If-Match" doc:"ETag of the version to change; * for any existing version." example:"\"3\""`
	IfNoneMatch string `header:"If-None-Match" doc:"*: the rule must not exist."`
}

// putIn is a request that saves a rule under a name.
type putIn struct {
	RuleName
	RulePrecondition
	SaveRuleInput
}

func (a *ruleAPI) put(ctx context.Context, in *putIn) (*changeOut, error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	if err := a.folders.maySaveInto(ctx, string(in.Name), &in.SaveRuleInput); err != nil {
		return nil, err
	}
	options, err := in.options(version, a.now())
	if err != nil {
		return nil, err
	}
	c, err := a.rules.Save(ctx, in.RawBody, string(in.Name), options)
	if err != nil {
		return nil, err
	}
	return a.retention.change(ctx, c, in.DryRun)
}

// version returns the version that a change of a rule or calendar requires, for the transaction that makes the change.
func (in RulePrecondition) version() (int32, error) {
	switch {
	case in.IfMatch != "" && in.IfNoneMatch != "":
		return 0, refused("header.If-Match", "it cannot be combined with If-None-Match; send one of them")
	case in.IfNoneMatch == "*":
		return 0, nil
	case in.IfNoneMatch != "":
		return 0, refused("header.If-None-Match", "only * is supported: it must not exist")
	case in.IfMatch == "":
		return rules.AnyVersion, nil
	case in.IfMatch == "*":
		return rules.AnyExisting, nil
	}
	number, err := strconv.ParseInt(strings.Trim(in.IfMatch, `"`), 10, 32)
	if err != nil || number < 1 || in.IfMatch != etag(int32(number)) {
		return 0, refused("header.If-Match", `it is not the ETag of a version; write the version in quotes, such as "3"`)
	}
	return int32(number), nil
}

// etag returns a version as a validator (RFC 9110, section 8.8.3).
func etag(version int32) string { return `"` + strconv.Itoa(int(version)) + `"` }

// deleteIn is a request that deletes a rule.
type deleteIn struct {
	RuleName
	IfMatch string     `header:"If-Match" doc:"ETag of the version to delete. Default: any." example:"\"3\""`
	Bundle  identifier `query:"bundle" doc:"Bundle of the rule. The bundle of the node's rules folder requires the scope admin." example:"file:orders"`
}

func (a *ruleAPI) remove(ctx context.Context, in *deleteIn) error {
	version, err := RulePrecondition{IfMatch: in.IfMatch}.version()
	if err != nil {
		return err
	}
	if err := a.folders.mayDelete(ctx, string(in.Name)); err != nil {
		return err
	}
	return a.rules.Delete(ctx, string(in.Name), version, string(in.Bundle))
}

func (a *ruleAPI) pause(paused bool) func(context.Context, *RuleName) (Rule, error) {
	return func(ctx context.Context, in *RuleName) (Rule, error) {
		if err := a.rules.Pause(ctx, string(in.Name), paused); err != nil {
			return Rule{}, err
		}
		l, err := a.rules.Get(ctx, string(in.Name))
		if err != nil {
			return Rule{}, err
		}
		return a.quotas.overQuota(ctx, newRule(l, a.now())), nil
	}
}
