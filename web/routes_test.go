package web_test

import (
	"regexp"
	"testing"

	"deadman/web"
)

// TestIndex checks that every operation in the index exists with its path and method.
func TestIndex(t *testing.T) {
	s := newFixture(t)
	for _, path := range []string{"/api/v1", "/api/v1/"} {
		if index := get[web.Index](t, s.Server, path); len(index.Routes) != 103 {
			t.Errorf("%s lists %d operations: %+v", path, len(index.Routes), index.Routes)
		}
	}
	part := regexp.MustCompile(`\{[a-z]+\}`)
	for _, route := range get[web.Index](t, s.Server, "/api/v1").Routes {
		a := requestPath(t, s.Server, route.Method, part.ReplaceAllString(route.Path, "x"), "{}")
		if a.StatusCode == 405 || regexp.MustCompile("nothing exists at").MatchString(a.body) || route.Summary == "" {
			t.Errorf("%+v: %d %s", route, a.StatusCode, a.body)
		}
	}
}
