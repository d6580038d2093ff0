package web

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// Rules reads and changes rules. rules.Registry implements it, and documents the errors. Implementations are safe for
// concurrent use.
type Rules interface {
	List(ctx context.Context) ([]rules.ListedRule, error)
	Get(ctx context.Context, name string) (rules.ListedRule, error)
	Versions(ctx context.Context, name string) ([]rules.RuleVersion, error)
	Diff(ctx context.Context, name string, from, to int32) (string, error)
	Save(ctx context.Context, text []byte, name string, o rules.SaveOptions) (rules.Change, error)
	Delete(ctx context.Context, name string, version int32, bundle string) error
	Pause(ctx context.Context, name string, paused bool) error
	Preview(ctx context.Context, ask rules.PreviewRequest) (rules.Preview, error)
}

var _ Rules = (*rules.Registry)(nil)

// Rule is a rule's newest version, as the API returns it without its document.
type Rule struct {
	Name        string    `json:"name" example:"order-unshipped"`
	Entity      string    `json:"entity" example:"order"`
	Description string    `json:"description,omitempty"`
	Enabled     bool      `json:"enabled" doc:"What the document says: false, no new waits begin."`
	Version     int32     `json:"version" doc:"The newest; it is the ETag, too. 0 in a dry run that would make the rule."`
	Bundle      string    `json:"bundle,omitempty" doc:"The set of files that it comes from, and is changed in; absent: the API." example:"file:orders"`
	SavedAt     time.Time `json:"saved_at,omitzero"`
	SavedBy     string    `json:"saved_by,omitempty"`
	PausedAt    time.Time `json:"paused_at,omitzero" doc:"Since when it begins no new waits, whatever the document says; absent: it does."`
	PausedBy    string    `json:"paused_by,omitempty" doc:"Who paused it; deadman (costly): deadman did, because its expressions or effects cost too much, and each of its events becomes a dead letter." example:"ada"`
	Subjects    []string  `json:"subjects" nullable:"false" doc:"What it listens to."`
	Schedule    string    `json:"schedule,omitempty" doc:"When it ticks, if it does." example:"30 1 * * 1-5"`
	NextTickAt  time.Time `json:"next_tick_at,omitzero" doc:"When it ticks next, if it does. Nothing comes of the ticks of a rule that is paused or not enabled."`
	Over        bool      `json:"over,omitempty" doc:"Its schedule does not tick any more."`
	Problem     string    `json:"problem,omitempty" doc:"Why this version of deadman cannot read it."`
	OverQuota   string    `json:"over_quota,omitempty" doc:"Which quota its rules have used up, and what helps; absent: none. Jobs do not begin, or alerts are not published, until there is room again."`
	Jobs        *RuleJobs `json:"jobs,omitempty" doc:"What it waits for, of a list only; absent before it was first counted."`
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
		r.Schedule, r.Over = l.Document.Trigger.Schedule, at.IsZero()
		if l.Document.Enabled && l.PausedAt.IsZero() {
			r.NextTickAt = at
		}
	}
	return r
}

// Halted reports whether the rule is paused because its expressions cost too much.
func (r Rule) Halted() bool { return !r.PausedAt.IsZero() && r.PausedBy == rules.HaltedBy }

// state returns the state of the rule, for the filter of lists.
func (r Rule) state() string {
	switch {
	case r.Problem != "":
		return "unreadable"
	case !r.PausedAt.IsZero():
		return "paused"
	case !r.Enabled:
		return "disabled"
	case r.Over:
		return "over"
	}
	return "enabled"
}

// RuleName is the rule in the path.
type RuleName struct {
	Name identifier `path:"name" doc:"The rule's name." example:"order-unshipped"`
}

// ruleAPI has the operations on rules.
type ruleAPI struct {
	rules   Rules
	folders *ruleFolders
	jobs    *ruleJobCounts
	quotas  *quotaAPI
	lints   *lintAPI
	saves   *places[tokenRef]
	now     func() time.Time
}

// register registers the operations on rules.
func (a *ruleAPI) register(all *operations) {
	register(all, operation{
		ID: "list-rules", Tag: tagRules, Method: "GET", Path: "/rules", Does: "lists the rules, by name",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-rule", Tag: tagRules, Method: "POST", Path: "/rules", Does: "creates a rule",
		Says:  "A rule of the name that is there already is a conflict; PUT /rules/{name} replaces it.",
		Scope: access.Rules, Reach: reachBody, Status: http.StatusCreated, Once: true, Limit: rules.MaxSize,
		Errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}, RequestBody: documentBody(), Responses: changeAnswers(),
	}, inTurn(a.saves, a.create))
	register(all, operation{
		ID: "lint-rule", Tag: tagRules, Method: "POST", Path: "/rules/lint", Does: "says what is wrong with a rule, and changes nothing",
		Says: "The answer is 200 also for a rule that is refused: its problems are what was asked for. " +
			"Whether a source takes what the rule looks up is asked with the scope rules alone, and no query is run.",
		Scope: access.Read, Reach: reachPublic, Limit: rules.MaxSize,
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}, RequestBody: documentBody(),
	}, withBody(inTurn(a.lints.trials, a.lints.lint)))
	register(all, operation{
		ID: "get-rule", Tag: tagRules, Method: "GET", Path: "/rules/{name}", Does: "shows a rule's document, as JSON or YAML",
		Says:  "Accept: application/yaml answers with YAML. GET /rules?name= shows what is known around the document, such as its next tick.",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound}, Responses: documentAnswer(),
	}, a.get)
	register(all, operation{
		ID: "put-rule", Tag: tagRules, Method: "PUT", Path: "/rules/{name}", Does: "creates or replaces a rule",
		Says: "If-Match with the rule's ETag replaces that version alone, and If-None-Match: * creates alone; " +
			"otherwise the answer is 412. A rule that would not change is not saved again.",
		Scope: access.Rules, Reach: reachRule, Limit: rules.MaxSize,
		Errors:      []int{http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests},
		RequestBody: documentBody(), Responses: changeAnswers(),
	}, inTurn(a.saves, a.put))
	register(all, operation{
		ID: "delete-rule", Tag: tagRules, Method: "DELETE", Path: "/rules/{name}", Does: "deletes a rule, and ends its jobs",
		Scope: access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed},
	}, noContent(a.remove))
	for _, paused := range []bool{true, false} {
		verb, does := "resume", "lets a rule begin new waits again"
		if paused {
			verb, does = "pause", "keeps a rule from beginning new waits"
		}
		register(all, operation{
			ID: verb + "-rule", Tag: tagRules, Method: "POST", Path: "/rules/{name}/" + verb, Does: does,
			Says:  "The waits that are there go on. Saving the rule, or applying files, does not undo it.",
			Scope: access.Rules, Reach: reachRule, Once: true, Errors: []int{http.StatusNotFound},
		}, withBody(a.pause(paused)))
	}
}

// ruleListIn has the filters of a rule list.
type ruleListIn struct {
	Name   identifier `query:"name" doc:"This rule alone." example:"order-unshipped"`
	Prefix identifier `query:"prefix" doc:"Names that begin so." example:"order-"`
	Entity identifier `query:"entity" doc:"Of this entity." example:"order"`
	Bundle identifier `query:"bundle" doc:"Of this set of files." example:"file:orders"`
	Text   identifier `query:"text" doc:"Whose name, description, entity or subjects have this in them, in capitals or not." example:"shipped"`
	State  string     `query:"state" enum:"enabled,paused,disabled,over,unreadable" doc:"enabled: it begins waits. paused: somebody paused it. disabled: the document says so. over: its schedule does not tick any more. unreadable: this version of deadman cannot read it."`
	Paused string     `query:"paused" enum:"true,false" doc:"Only those that are paused, or only those that are not."`
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
	v, page, jobs, now := principalOf(ctx), Page[Rule]{Items: []Rule{}}, a.jobs.ofRules(ctx), a.now()
	for _, l := range all { // by name
		switch {
		case l.Name <= after || !v.canSee(l.Name) || !in.wants(l) || in.State != "" && in.State != newRule(l, now).state():
		case len(page.Items) == in.Limit:
			last := page.Items[in.Limit-1].Name
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(ruleCursor + last))
			return page, nil
		default:
			r := a.quotas.overQuota(ctx, newRule(l, now))
			r.Jobs = jobs(l)
			page.Items = append(page.Items, r)
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
	return documentOut(l.RuleVersion, in.Accept)
}

// SaveRuleInput is the text of a rule, with the options of saving it.
type SaveRuleInput struct {
	DryRun  bool       `query:"dry_run" doc:"Says what would change, and changes nothing."`
	ApplyTo string     `query:"apply_to" enum:"new,pending" default:"new" doc:"pending: the jobs that are pending go on with the new version, too."`
	Bundle  identifier `query:"bundle" doc:"The set of files that the rule comes from; not the folder that a node reads (409)." example:"file:orders"`
	Adopt   bool       `query:"adopt" doc:"Takes a rule over that belongs to another set of files; one of the folder that a node reads needs the scope admin."`
	Since   time.Time  `query:"since" doc:"Events that the streams still have since then begin waits, too." example:"2026-01-31T15:04:05Z"`
	RawBody []byte     `contentType:"application/yaml"`
}

func (in *SaveRuleInput) options(version int32) rules.SaveOptions {
	return rules.SaveOptions{
		Version: version, Bundle: string(in.Bundle), Adopt: in.Adopt, DryRun: in.DryRun,
		Pending: in.ApplyTo == "pending", Since: in.Since.UTC(),
	}
}

func (a *ruleAPI) create(ctx context.Context, in *SaveRuleInput) (*changeOut, error) {
	if err := a.folders.mayAddTo(ctx, string(in.Bundle)); err != nil {
		return nil, err
	}
	options := in.options(0)
	options.May = mayName(ctx, access.Rules)
	c, err := a.rules.Save(ctx, in.RawBody, "", options)
	if errors.Is(err, rules.ErrConflict) {
		return nil, problemIs(RuleConflict, http.StatusConflict, "%v; PUT /rules/{name} replaces it", err)
	}
	if err != nil {
		return nil, err
	}
	return newChange(c, in.DryRun, a.now()), nil
}

// mayName refuses rules outside the prefix of the visitor's token, for rules named in a text instead of the path.
func mayName(ctx context.Context, s access.Scope) func(name string) error {
	v := principalOf(ctx)
	return func(name string) error { return v.requireRule(s, name) }
}

// RulePrecondition is the version that a change requires.
type RulePrecondition struct {
	IfMatch     string `header:"If-Match" doc:"The ETag of the version to change; * is any version that is there." example:"\"3\""`
	IfNoneMatch string `header:"If-None-Match" doc:"*: the rule must not be there."`
}

// putIn is a request that saves a rule under a name.
type putIn struct {
	RuleName
	RulePrecondition
	SaveRuleInput
}

func (a *ruleAPI) put(ctx context.Context, in *putIn) (*changeOut, error) {
	version, err := a.version(ctx, string(in.Name), in.RulePrecondition)
	if err != nil {
		return nil, err
	}
	if err := a.folders.maySaveInto(ctx, string(in.Name), &in.SaveRuleInput); err != nil {
		return nil, err
	}
	c, err := a.rules.Save(ctx, in.RawBody, string(in.Name), in.options(version))
	if err != nil {
		return nil, err
	}
	return newChange(c, in.DryRun, a.now()), nil
}

// version returns the version that a change requires.
func (a *ruleAPI) version(ctx context.Context, name string, in RulePrecondition) (int32, error) {
	switch {
	case in.IfMatch != "" && in.IfNoneMatch != "":
		return 0, refused("header.If-Match", "it comes with If-None-Match, and both cannot hold; send one of them")
	case in.IfNoneMatch == "*":
		return 0, nil
	case in.IfNoneMatch != "":
		return 0, refused("header.If-None-Match", "only * is taken: the rule must not be there")
	case in.IfMatch == "":
		return rules.AnyVersion, nil
	case in.IfMatch == "*":
		l, err := a.rules.Get(ctx, name)
		if errors.Is(err, futurejobs.ErrNotFound) {
			return 0, fmt.Errorf("rule %s is not there: %w", name, rules.ErrConflict)
		}
		return l.Version, err
	}
	number, err := strconv.ParseInt(strings.Trim(in.IfMatch, `"`), 10, 32)
	if err != nil || number < 1 || in.IfMatch != etag(int32(number)) {
		return 0, refused("header.If-Match", `it is no ETag of a rule; write the version in quotes, such as "3"`)
	}
	return int32(number), nil
}

// etag returns a version as a validator (RFC 9110, section 8.8.3).
func etag(version int32) string { return `"` + strconv.Itoa(int(version)) + `"` }

// deleteIn is a request that deletes a rule.
type deleteIn struct {
	RuleName
	IfMatch string     `header:"If-Match" doc:"The ETag of the version that is deleted; absent: any." example:"\"3\""`
	Bundle  identifier `query:"bundle" doc:"The set of files that the rule comes from; where that is the folder that a node reads, it needs the scope admin." example:"file:orders"`
}

func (a *ruleAPI) remove(ctx context.Context, in *deleteIn) error {
	version, err := a.version(ctx, string(in.Name), RulePrecondition{IfMatch: in.IfMatch})
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
