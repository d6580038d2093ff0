package web

import (
	"encoding/json"
	"net/http"
)

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
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		a.Log.DebugContext(r.Context(), "the client left before the answer", "path", logged(r.URL.Path), "err", err)
	}
}

// headers are those of every answer.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
