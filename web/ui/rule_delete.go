package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"deadman/web"
)

// ruleDeletedError means that the requested rule was deleted.
type ruleDeletedError struct {
	Rule string
	At   time.Time
	By   string // actor; empty: hidden from the visitor
}

// Error implements error.
func (d *ruleDeletedError) Error() string { return "rule " + d.Rule + " was deleted" }

// problem returns the problem of a request for the rule.
func (d *ruleDeletedError) problem() *web.Problem {
	return &web.Problem{Status: http.StatusNotFound, Title: "Rule " + d.Rule + " was deleted", Detail: "Its alerts and history are kept within the retention time."}
}

// ways links to the remaining data of the rule.
func (d *ruleDeletedError) ways() []link {
	return []link{{rulePath(d.Rule) + "/versions", "Versions"}, {"/history?" + url.Values{"rule": {d.Rule}, "within": {anyTime}}.Encode(), "History"}, {"/rules", "All rules"}}
}

// deletionClient deletes rules.
type deletionClient struct{ client }

// ruleDeleted returns the reason for a rule's absence.
func (c deletionClient) ruleDeleted(name string) error {
	versions, err := versionClient(c).versions(name, 1)
	is, err := exists(err)
	switch {
	case err != nil:
		return err
	case !is || len(versions) == 0 || versions[0].DeletedAt.IsZero():
		return &web.Problem{Status: http.StatusNotFound, Title: "No rule " + name, Detail: "The address may be mistyped."}
	}
	d := &ruleDeletedError{Rule: name, At: versions[0].DeletedAt}
	d.By, err = c.deleter(name)
	if err != nil {
		return err
	}
	return d
}

// deleter returns the actor of a rule's deletion from the audit log. It is empty if the visitor may not read the log.
func (c deletionClient) deleter(name string) (string, error) {
	var page web.Page[web.AuditEntry]
	err := c.get("/audit", url.Values{"object": {"rule/" + name}, "action": {"rule.delete"}, "limit": {"1"}}, &page)
	if is, err := exists(err); !is || err != nil || len(page.Items) == 0 {
		return "", err // nil: the audit log is off or closed to the visitor
	}
	return page.Items[0].Actor, nil
}

// deleting asks for confirmation before the current version of a rule is deleted.
func (c deletionClient) deleting(name string) (confirmation, error) {
	known, err := c.listed(name)
	return confirmation{
		Title: "Delete rule " + name + "?", At: rulePath(name), Form: []field{{"do", "delete"}, {"version", fmt.Sprint(known.Version)}},
		Text: ending(known.Jobs) + " History and versions are kept.",
		Do:   "Delete rule", Dangerous: true, Keep: "Keep rule", Back: rulePath(name),
	}, err
}

// ending describes the effect of a deletion on the rule's jobs. A deleted rule sends no notifications, not even of
// resolved alerts.
func ending(jobs *web.RuleJobs) string {
	switch {
	case jobs == nil:
		return "Its jobs end, and its open alerts are closed without notifications."
	case jobs.Pending == 0:
		return "The rule has no pending jobs."
	case jobs.OpenAlerts == 0:
		return countText(jobs.Pending, "job ends", "jobs end") + " without notifications."
	}
	return fmt.Sprintf("%s, and %s closed without notifications.",
		countText(jobs.Pending, "job ends", "jobs end"), countText(jobs.OpenAlerts, "open alert is", "open alerts are"))
}

// countText returns a number with the fitting verb phrase.
func countText(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + several
}

// staleVersionError means that the rule changed after the page was loaded.
type staleVersionError struct{ Rule string }

// Error implements error.
func (o *staleVersionError) Error() string { return "rule " + o.Rule + " was changed" }

func (o *staleVersionError) problem() *web.Problem {
	return &web.Problem{Status: http.StatusPreconditionFailed, Title: "The rule was not deleted", Detail: "A new version was saved in the meantime. Review it and delete the rule again if needed."}
}

func (o *staleVersionError) ways() []link {
	return []link{{rulePath(o.Rule), "View the new version"}, {rulePath(o.Rule) + "/versions", "Compare versions"}}
}

// deleteRule deletes a rule if its version is still the given one.
func (c deletionClient) deleteRule(name, version string) error {
	a, err := c.send(http.MethodDelete, rulePath(name), nil, http.Header{"If-Match": {`"` + version + `"`}}, nil)
	if err == nil {
		err = a.decode("DELETE "+rulePath(name), nil)
	}
	if problem := new(web.Problem); errors.As(err, &problem) && problem.Status == http.StatusPreconditionFailed {
		return &staleVersionError{name}
	}
	return err
}
