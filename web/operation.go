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

// operation is an operation of the API.
type operation struct {
	ID             string // name for generated clients
	Tag            string
	Method         string
	Path           string // below apiPath, with parameters in braces
	Summary        string // one line
	Description    string // further description
	Scope          access.Scope
	Reach          resourceScope
	Status         int                  // of success; 0: 200, or 204 without a body
	Limit          int64                // of the body, in bytes; 0: bodyLimit
	IdempotencyKey bool                 // takes an Idempotency-Key
	Turns          *semaphore[tokenRef] // bounds the requests that are read and answered at once; nil: no bound
	Errors         []int                // statuses beyond those of every operation

	RequestBody *huma.RequestBody // nil: derived from the input's Body
	Responses   map[string]*huma.Response
	Middlewares huma.Middlewares
	Hidden      bool

	schemas huma.Registry
}

// resolve returns the schema that s refers to, or s itself.
func (o operation) resolve(s *huma.Schema) *huma.Schema {
	if s != nil && s.Ref != "" {
		return o.schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// bodyLimit is the default limit of a body, in bytes.
const bodyLimit = 256 << 10

// answer is an output with only a body.
type answer[T any] struct{ Body T }

// nothing is an empty input or output.
type nothing struct{}

// withBody makes the result of do the body of an answer.
func withBody[In, T any](do func(context.Context, *In) (T, error)) func(context.Context, *In) (*answer[T], error) {
	return func(ctx context.Context, in *In) (*answer[T], error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return &answer[T]{out}, nil
	}
}

// noContent makes an operation without a body of do.
func noContent[In any](do func(context.Context, *In) error) func(context.Context, *In) (*nothing, error) {
	return func(ctx context.Context, in *In) (*nothing, error) { return nil, do(ctx, in) }
}

// register adds an operation to the API: its route, the index and the description.
func register[In, Out any](all *operations, o operation, do func(context.Context, *In) (*Out, error)) {
	o.schemas = all.huma.OpenAPI().Components.Schemas
	op := o.describe()
	if body := o.RequestBody; body != nil { // keep the declared description of a raw body, since huma overwrites it
		content, required := maps.Clone(body.Content), body.Required
		defer func() { body.Content, body.Required = content, required }()
	}
	huma.Register(all.huma, op, func(ctx context.Context, in *In) (*Out, error) {
		err := checkInstants(in)
		var out *Out
		if err == nil {
			out, err = do(ctx, in)
		}
		if err != nil {
			return nil, all.refuse(ctx, op.Method, op.Path, err)
		}
		return out, nil
	})
	if !hasBody[In]() {
		delete(op.Responses, "422") // only operations with a body return it
	}
	if !o.Hidden {
		all.routes = append(all.routes, Route{Method: op.Method, Path: op.Path, Summary: o.Summary})
	}
}

// hasBody reports whether an input has a body.
func hasBody[In any]() bool {
	_, typed := reflect.TypeFor[In]().FieldByName("Body")
	_, raw := reflect.TypeFor[In]().FieldByName("RawBody")
	return typed || raw
}

// metaKey is the key of an operation in the metadata of huma's.
const metaKey = "deadman"

func (o operation) describe() huma.Operation {
	if o.Limit == 0 {
		o.Limit = bodyLimit
	}
	op := huma.Operation{
		OperationID: o.ID, Method: o.Method, Path: apiPath + o.Path, Tags: []string{o.Tag},
		Summary: capital(o.Summary), Description: o.Description, DefaultStatus: o.Status,
		MaxBodyBytes:    o.Limit + 1, // huma refuses bodies of that size
		BodyReadTimeout: readTime, Hidden: o.Hidden,
		RequestBody: o.RequestBody, Responses: o.Responses, Middlewares: o.Middlewares,
		Errors:   append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, o.Errors...),
		Metadata: map[string]any{metaKey: o},
		Security: []map[string][]string{{bearerScheme: {string(o.Scope)}}},
	}
	if o.RequestBody != nil {
		op.SkipValidateBody = true // the operation parses the text itself
	}
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	if o.IdempotencyKey {
		op.Parameters = append(op.Parameters, onceParameter())
	}
	return op
}

// operationOf returns the operation of a request; ok is false if the request matches none of deadman's.
func operationOf(ctx huma.Context) (o operation, ok bool) {
	if ctx == nil || ctx.Operation() == nil {
		return o, false
	}
	o, ok = ctx.Operation().Metadata[metaKey].(operation)
	return o, ok
}

// capital capitalizes a sentence; s begins with an ASCII letter or a digit.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
