package web_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"deadman/internal/access"
	"deadman/internal/testwait"
	"deadman/web"
)

// checkProfile parses a profile as go tool pprof does, and returns it.
func checkProfile(t *testing.T, a answer, sample string) *profile.Profile {
	t.Helper()
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	got, err := profile.ParseData([]byte(a.body))
	failOn(t, err)
	failOn(t, got.CheckValid())
	if kind := got.SampleType[len(got.SampleType)-1].Type; kind != sample {
		t.Errorf("the profile has samples of %q, want %q", kind, sample)
	}
	return got
}

func TestProfilesAreForAdministrators(t *testing.T) {
	s := newFixture(t, closedNode)
	admin, reader := s.newToken("boss", "", access.Admin), s.newToken("eve", "", access.Read)
	tenant := s.newToken("acme", "acme-*", access.Admin)
	for _, name := range []string{"heap", "profile?seconds=1", "trace?seconds=1", "nothing"} {
		at := "/debug/pprof/" + name
		checkProblem(t, requestPath(t, s.Server, "GET", at, ""), 401, web.Unauthorized, "token")
		checkProblem(t, requestPath(t, s.Server, "GET", at, "", reader...), 403, web.Forbidden, "scope admin")
		checkProblem(t, requestPath(t, s.Server, "GET", at, "", tenant...), 403, web.Forbidden, "acme-*")
	}

	get := func(name string) answer { return requestPath(t, s.Server, "GET", "/debug/pprof/"+name, "", admin...) }
	heap := checkProfile(t, get("heap?gc=1"), "inuse_space")
	if len(heap.Function) == 0 || len(heap.Sample) == 0 {
		t.Error("the profile of the heap names no function")
	}
	checkProfile(t, get("goroutine"), "goroutine")
	checkProfile(t, get("allocs?seconds=1"), "inuse_space")
	cpu := checkProfile(t, get("profile?seconds=1"), "cpu")
	if took := time.Duration(cpu.DurationNanos); took < 900*time.Millisecond {
		t.Errorf("the profile of a second took %s", took)
	}
	if trace := get("trace?seconds=1"); trace.StatusCode != 200 || !strings.HasPrefix(trace.body, "go 1.") {
		t.Errorf("a trace is %d %.20q", trace.StatusCode, trace.body)
	}
	for _, name := range []string{"cmdline", "block", "nothing"} {
		checkProblem(t, get(name), 404, web.NotFound, name, "heap")
	}
	for _, seconds := range []string{"61", "0", "-1", "1.5", "soon"} {
		for _, name := range []string{"profile", "trace", "heap"} {
			checkProblem(t, get(name+"?seconds="+seconds), 400, web.BadRequest, seconds, "from 1 to 60")
		}
	}
}

// TestProfileEndsWithItsNode checks that a node records one profile at once, and that a profile ends when its node stops.
func TestProfileEndsWithItsNode(t *testing.T) {
	s := newFixture(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	failOn(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	node, served := httptest.Server{URL: "http://" + ln.Addr().String()}, make(chan error, 1)
	go func() { served <- web.Serve(ctx, ln, s.Config.Handler, 30*time.Second) }()

	long := make(chan answer, 1)
	go func() { long <- requestPath(t, &node, "GET", "/debug/pprof/profile?seconds=60", "") }()
	testwait.Until(t, "the node records the long profile", func() bool {
		return strings.Contains(requestPath(t, &node, "GET", "/debug/pprof/goroutine?debug=2", "").body, "net/http/pprof.Profile(")
	})
	checkProblem(t, requestPath(t, &node, "GET", "/debug/pprof/trace?seconds=1", ""), 409, web.Conflict, "another profile", "60 s")
	stop()
	cpu := checkProfile(t, <-long, "cpu")
	if took := time.Duration(cpu.DurationNanos); took > 50*time.Second {
		t.Errorf("a profile of 60 s took %s of a node that stops", took)
	}
	failOn(t, <-served)
}
