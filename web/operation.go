package web

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"deadman/internal/access"
)

// operation is one thing that the API does.
type operation struct {
	ID     string // what clients call it
	Tag    string
	Method string
	Path   string // below apiPath, with names of parts in braces
	Does   string // one line
	Says   string // more about it
	Scope  access.Scope
	Reach  resourceScope
	Status int   // of success; 0: 200, or 204 without a body
	Limit  int64 // of the body, in bytes; 0: bodyLimit
	Once   bool  // takes an Idempotency-Key
	// Turns has room for as many requests as are read and answered at once; nil: for all.
	Turns  chan struct{}
	Errors []int // statuses beside those that any operation has

	RequestBody *huma.RequestBody // nil: what the input's Body says
	Responses   map[string]*huma.Response
	Middlewares huma.Middlewares
	Hidden      bool

	schemas huma.Registry
}

// resolve is the schema itself where s refers to one.
func (o operation) resolve(s *huma.Schema) *huma.Schema {
	if s != nil && s.Ref != "" {
		return o.schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// bodyLimit is the most that a body may have that says nothing else, in bytes.
const bodyLimit = 256 << 10

// answer is an output that is nothing but a body.
type answer[T any] struct{ Body T }

// nothing is an input, or an output, that has no part.
type nothing struct{}

// withBody makes what do returns the body of an answer.
func withBody[In, T any](do func(context.Context, *In) (T, error)) func(context.Context, *In) (*answer[T], error) {
	return func(ctx context.Context, in *In) (*answer[T], error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return &answer[T]{out}, nil
	}
}

// noContent makes an operation of what returns nothing but whether it went well.
func noContent[In any](do func(context.Context, *In) error) func(context.Context, *In) (*nothing, error) {
	return func(ctx context.Context, in *In) (*nothing, error) { return nil, do(ctx, in) }
}

// register makes an operation part of the API: it is answered, it is in the index, and the
// description has it.
func register[In, Out any](a *api, o operation, do func(context.Context, *In) (*Out, error)) {
	o.schemas = a.huma.OpenAPI().Components.Schemas
	op := o.describe()
	if body := o.RequestBody; body != nil { // what is said of it counts, and not what huma makes of a raw body
		content, required := maps.Clone(body.Content), body.Required
		defer func() { body.Content, body.Required = content, required }()
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *In) (*Out, error) {
		err := checkInstants(in)
		var out *Out
		if err == nil {
			out, err = do(ctx, in)
		}
		if err != nil {
			return nil, a.refuse(ctx, op.Method, op.Path, err)
		}
		return out, nil
	})
	if !hasBody[In]() {
		delete(op.Responses, "422") // it is about bodies
	}
	if !o.Hidden {
		a.routes = append(a.routes, Route{Method: op.Method, Path: op.Path, Does: o.Does})
	}
}

// hasBody reports whether an input has a body.
func hasBody[In any]() bool {
	_, typed := reflect.TypeFor[In]().FieldByName("Body")
	_, raw := reflect.TypeFor[In]().FieldByName("RawBody")
	return typed || raw
}

// metaKey is where an operation of ours is found in huma's.
const metaKey = "deadman"

func (o operation) describe() huma.Operation {
	if o.Limit == 0 {
		o.Limit = bodyLimit
	}
	op := huma.Operation{
		OperationID: o.ID, Method: o.Method, Path: apiPath + o.Path, Tags: []string{o.Tag},
		Summary: capital(o.Does), Description: o.Says, DefaultStatus: o.Status,
		MaxBodyBytes:    o.Limit + 1, // huma refuses what reaches it
		BodyReadTimeout: readTime, Hidden: o.Hidden,
		RequestBody: o.RequestBody, Responses: o.Responses, Middlewares: o.Middlewares,
		Errors:   append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, o.Errors...),
		Metadata: map[string]any{metaKey: o},
		Security: []map[string][]string{{bearerScheme: {string(o.Scope)}}},
	}
	if o.RequestBody != nil {
		op.SkipValidateBody = true // it is a text that the operation reads itself
	}
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	if o.Once {
		op.Parameters = append(op.Parameters, onceParameter())
	}
	return op
}

// operationOf is the operation that a request is for; ok is false when it is none of ours.
func operationOf(ctx huma.Context) (o operation, ok bool) {
	if ctx == nil || ctx.Operation() == nil {
		return o, false
	}
	o, ok = ctx.Operation().Metadata[metaKey].(operation)
	return o, ok
}

// capital begins a sentence; s begins with a letter of ASCII or a digit.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
