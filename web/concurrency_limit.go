package web

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// limitConcurrency has a request wait while as many are read and answered as its operation has turns for.
func (a *api) limitConcurrency(ctx huma.Context, next func(huma.Context)) {
	o, _ := operationOf(ctx)
	if o.Turns == nil {
		next(ctx)
		return
	}
	select {
	case o.Turns <- struct{}{}:
		defer func() { <-o.Turns }()
		next(ctx)
	case <-ctx.Context().Done():
		r, w := humachi.Unwrap(ctx)
		a.fail(w, r, problem(http.StatusServiceUnavailable, "%d such requests are being answered, and none of them ended in time; try again", cap(o.Turns)))
	}
}
