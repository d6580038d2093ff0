package web_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// TestInstantsAreBounded checks that every time in parameters and bodies is within the years 1970 to 2999: others are
// refused by name, without cutting the connection.
func TestInstantsAreBounded(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{}`)
	alert := s.alert("1", "late", time.Hour)
	var described struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Required bool
				Schema   struct{ Format string }
			}
		}
	}
	failOn(t, json.Unmarshal([]byte(requestPath(t, s.Server, "GET", "/openapi.json", "").body), &described))
	found := 0
	for path, operations := range described.Paths {
		path = strings.NewReplacer("{rule}", "order-unshipped", "{name}", "order-unshipped").Replace(path)
		for method, o := range operations {
			for _, p := range o.Parameters {
				if p.In != "query" || p.Schema.Format != "date-time" {
					continue
				}
				found++
				query := url.Values{}
				for _, other := range o.Parameters {
					if other.In == "query" && other.Required {
						query.Set(other.Name, "x")
					}
				}
				for _, at := range []string{"9999-12-31T23:59:59.999999999Z", "3000-01-01T00:00:00Z", "2999-12-31T23:59:59-00:01", "1969-12-31T23:59:59Z", "0001-01-02T00:00:00Z"} {
					query.Set(p.Name, at)
					a := requestPath(t, s.Server, strings.ToUpper(method), path+"?"+query.Encode(), unshippedRule, "Content-Type", "application/yaml")
					checkProblem(t, a, 400, web.BadRequest, "query."+p.Name, "1970 to 2999")
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d instants are found: nothing is tested", found)
	}
	for path, body := range map[string]string{
		"/api/v1/jobs/order-unshipped/1/snooze":        `{"until": "3000-01-01T00:00:00Z"}`,
		"/api/v1/alerts/" + alert.ID.String() + "/ack": `{"until": "3000-01-01T00:00:00Z"}`,
		"/api/v1/mutes":                         `{"match": {"rule": "x"}, "reason": "r", "until": "3000-01-01T00:00:00Z"}`,
		"/api/v1/jobs":                          `{"rule": "order-unshipped", "key": "2", "since": "3000-01-01T00:00:00Z"}`,
		"/api/v1/rules/order-unshipped/preview": `{"event": {"data": {"id": "1"}}, "until": "3000-01-01T00:00:00Z"}`,
	} {
		checkProblem(t, requestPath(t, s.Server, "POST", path, body), 422, web.Invalid, "body.", "1970 to 2999")
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/rules/order-unshipped/preview", `{"event": {"data": {"id": "1"}, "at": "1969-01-01T00:00:00Z"}}`), 422, web.Invalid, "body.event.at", "1970 to 2999")
	bulk := requestPath(t, s.Server, "POST", "/api/v1/jobs/bulk", `{"rule": "order-unshipped", "key": "3", "since": "9999-01-01T00:00:00Z"}`, "Content-Type", "application/x-ndjson")
	var came web.BulkResult
	failOn(t, json.Unmarshal([]byte(bulk.body), &came))
	if len(came.RefusedLines) != 1 || came.RefusedLines[0].Field != "since" || !strings.Contains(came.RefusedLines[0].Message, "1970 to 2999") {
		t.Errorf("%d %s", bulk.StatusCode, bulk.body)
	}
	for _, at := range []string{"1970-01-01T00:00:00Z", "2999-12-31T23:59:59Z"} {
		if a := requestPath(t, s.Server, "GET", "/api/v1/slots?bucket=1d&from="+at, ""); a.StatusCode >= 500 {
			t.Errorf("%s: %d %s", at, a.StatusCode, a.body)
		}
	}
}

// farStreams returns streams with a time that JSON cannot encode.
type farStreams struct{}

func (farStreams) Streams(context.Context) ([]web.Stream, error) {
	return []web.Stream{{Name: "x", LastAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}, nil
}

// panickingStreams panics instead of returning streams.
type panickingStreams struct{}

func (panickingStreams) Streams(context.Context) ([]web.Stream, error) { panic("a mistake of ours") }

// TestFailedAnswerIsProblem checks that an answer that cannot be encoded is a problem, without cutting the
// connection.
func TestFailedAnswerIsProblem(t *testing.T) {
	for name, streams := range map[string]web.Streams{"not to be encoded": farStreams{}, "a panic": panickingStreams{}} {
		s := newFixture(t, func(o *web.Options, _ *fixture) { o.Streams = streams })
		a := requestPath(t, s.Server, "GET", "/api/v1/streams", "")
		checkProblem(t, a, 500, web.Internal, "see the log of the node")
		if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", name, a.Header)
		}
		if a := requestPath(t, s.Server, "GET", "/health", "", htmlHeader...); a.StatusCode != 200 && a.StatusCode != 500 {
			t.Errorf("%s: the page answers %d", name, a.StatusCode)
		}
	}
}
