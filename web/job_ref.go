package web

import (
	"context"
	"net/http"
)

// ref identifies a job.
type ref struct{ rule, key string }

// keyRef is a request that only identifies a job.
type keyRef struct{ ref }

// JobPath identifies a job by its path.
type JobPath struct {
	Rule identifier `path:"rule" doc:"Name of the rule." example:"order-unshipped"`
	Key  identifier `path:"key" doc:"Key of the entity." example:"1234"`
}

// JobQuery identifies a job by its path and its query, for keys that do not fit into a path.
type JobQuery struct {
	Rule identifier `path:"rule" doc:"Name of the rule." example:"order-unshipped"`
	Key  identifier `query:"key" required:"true" doc:"Key of the entity." example:"a/b c"`
}

func (p JobPath) named() ref  { return ref{string(p.Rule), string(p.Key)} }
func (q JobQuery) named() ref { return ref{string(q.Rule), string(q.Key)} }

// addKeyed registers an operation on a job in its two forms: with the key in the path, and with the key in the query.
// after follows the job in the path.
func addKeyed[Out any](all *operations, o operation, after string, do func(context.Context, *keyRef) (*Out, error)) {
	inPath, inQuery := o.keyed(after)
	register(all, inPath, func(ctx context.Context, in *JobPath) (*Out, error) { return do(ctx, &keyRef{in.named()}) })
	register(all, inQuery, func(ctx context.Context, in *JobQuery) (*Out, error) { return do(ctx, &keyRef{in.named()}) })
}

// keyed returns the two forms of an operation on a job.
func (o operation) keyed(after string) (inPath, inQuery operation) {
	o.Tag = tagJobs
	return o.inTwoForms("/jobs/{rule}", "key", after)
}

// inTwoForms returns the two forms of an operation on an object of a rule: with the name of the object in the path, and
// with the name in the query. after follows the object in the path.
func (o operation) inTwoForms(base, name, after string) (inPath, inQuery operation) {
	o.Reach, o.Errors = reachRule, append(o.Errors, http.StatusNotFound)
	inPath, inQuery = o, o
	inPath.Path = base + "/{" + name + "}" + after
	inQuery.Path = base + after
	inQuery.ID += "-by-query"
	inQuery.Summary += "; the " + name + " is in ?" + name + "="
	return inPath, inQuery
}
