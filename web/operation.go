package web

import (
	"context"
	"encoding/json"
	"net/http"
)

// op makes an operation a handler: read takes what it needs from the request, do answers,
// and the answer goes out as JSON under status. A status of 204 goes out alone.
func op[In, Out any](a *api, status int, read func(*reading) In, do func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := newReading(w, r)
		in := read(from)
		if err := from.done(); err != nil {
			a.fail(w, r, err)
			return
		}
		out, err := do(r.Context(), in)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if status == http.StatusNoContent {
			w.WriteHeader(status)
			return
		}
		a.write(w, r, status, out)
	}
}

// write sends v as JSON. It is encoded first, so that what cannot be encoded is a problem
// and not half an answer.
func (a *api) write(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.send(w, r, "application/json", status, append(body, '\n'))
}

func (a *api) send(w http.ResponseWriter, r *http.Request, kind string, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		a.Log.DebugContext(r.Context(), "the client left before the answer", "path", r.URL.Path, "err", err)
	}
}

func readNothing(*reading) struct{} { return struct{}{} }
