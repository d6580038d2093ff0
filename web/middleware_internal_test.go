package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFailedAnswers checks that a partly sent answer is cut off, so that it does not pass for a complete one; for any
// other failed answer, only the problem is sent.
func TestFailedAnswers(t *testing.T) {
	a := &middlewares{responder: &responder{log: slog.New(slog.DiscardHandler)}}
	type answer struct { // the response without its body, read by ask
		status int
		header http.Header
	}
	send := func(h http.HandlerFunc) (answer, string, error) {
		t.Helper()
		s := httptest.NewServer(a.recoverPanics(h))
		defer s.Close()
		request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return answer{}, "", err
		}
		defer got.Body.Close()
		body, err := io.ReadAll(got.Body)
		return answer{got.StatusCode, got.Header}, string(body), err
	}
	_, body, err := send(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("the rest cannot be made")
	})
	if err == nil {
		t.Errorf("half an answer passes for a whole one: %q", body)
	}
	got, body, err := send(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", "1")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusCreated)
		panic("nothing can be made")
	})
	if err != nil || got.status != http.StatusInternalServerError || got.header.Get("ETag")+got.header.Get("Set-Cookie") != "" || !strings.Contains(body, Internal.URN()) {
		t.Errorf("%+v %s %v", got, body, err)
	}
	for status, want := range map[int]int{0: 200, http.StatusNoContent: 204, http.StatusTeapot: 418} {
		got, _, err := send(func(w http.ResponseWriter, _ *http.Request) {
			if status != 0 {
				w.WriteHeader(status)
			}
		})
		if err != nil || got.status != want {
			t.Errorf("%d comes as %+v, %v", status, got, err)
		}
	}
}
