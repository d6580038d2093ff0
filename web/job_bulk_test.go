package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/web"
)

const bulkPath = "/api/v1/jobs/bulk"

func decodeBulk(t *testing.T, a answer) web.BulkResult {
	t.Helper()
	var b web.BulkResult
	if err := json.Unmarshal([]byte(a.body), &b); a.StatusCode != 200 || err != nil {
		t.Fatalf("%d: %.500s", a.StatusCode, a.body)
	}
	if b.Existed != len(b.ExistedLines) || b.Refused != len(b.RefusedLines) {
		t.Errorf("the counts are not those of the lists: %+v", b)
	}
	return b
}

// pendingJobs returns the number of jobs in the fixture's store.
func (s *fixture) pendingJobs() int {
	s.t.Helper()
	page, err := s.store.Jobs(s.t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	failOn(s.t, err)
	return len(page.Items)
}

// TestBulk checks that valid lines create jobs regardless of the others, and that each refused line gets its number, its
// error and a remedy.
func TestBulk(t *testing.T) {
	s := newFixture(t)
	s.createJob("there", time.Hour, `{}`)
	long, deep := strings.Repeat("k", 512), strings.Repeat("[", 65)+strings.Repeat("]", 65)
	lines := []string{
		`{"rule": "order-unshipped", "key": "1", "event": {"id": "a}\"", "total": 12.50, "of": [{"n": 1}]}, "since": "` + s.now.Add(-time.Hour).Format(time.RFC3339) + `"}`,
		``,
		`{"rule": "order-unshipped", "key": `, // 3
		`{"key":"\u0061\/b","rule":"order-unshipped"}` + "\r",
		`{"rule": "order-unshipped", "key": "1"}`, // 5: of line 1
		`{"rule": "order-unshipped", "key": "there"}`,
		`{"rule": "absent", "key": "1"}`, // 7
		`{"rule": "order-unshipped", "kye": "1"}`,
		`{"rule": "order-unshipped", "key": 1}`, // 9
		`{"rule": "order-unshipped"}`,
		`{"rule": "order-unshipped", "key": ""}`, // 11
		`{"rule": "order-unshipped", "key": "` + long + `"}`,
		`{"rule": "order-unshipped", "key": "` + long + `k"}`, // 13
		`{"rule": "order-unshipped", "key": "far", "since": "2999-01-01T00:00:00Z"}`,
		`{"rule": "order-unshipped", "key": "then", "since": "yesterday"}`, // 15
		`{"rule": "order-unshipped", "key": "big", "event": {"of": "` + strings.Repeat("x", 2<<20) + `"}}`,
		`{"rule": "order-unshipped", "key": "deep", "event": ` + deep + `}`, // 17
		`{"rule": "order-unshipped", "key": "no", "event": {"a": tru}}`,
		`{"rule": "order-unshipped", "key": "open", "event": {"a": "}`, // 19
		`{"rule": "order-unshipped", "key": "x"} {"rule": "order-unshipped", "key": "y"}`,
		`{"rule": "order-unshipped", "key": "x", "key": "y"}`, // 21
		`{"rule": "order-unshipped", "key": "\u0000"}`,
		"{\"rule\": \"order-unshipped\", \"key\": \"\xff\"}", // 23
		"{\"rule\": \"order-unshipped\", \"key\": \"\x01\"}",
		`{"rule": "order-unshipped", "key": "\q"}`, // 25
		`"order-unshipped"`,
		`{"rule": "order-unshipped", "key": "none", "event": , "since": null}`, // 27
		`{"rule": "order-unshipped", "key": "scalar", "event":null}`,
		`{"rule": "` + strings.Repeat("r", 64) + `", "key": "1"}`, // 29
		`{}`,
		`{"rule": "order-unshipped", "key": "comma",}`, // 31
	}
	got := decodeBulk(t, requestPath(t, s.Server, "POST", bulkPath, strings.Join(lines, "\n"), "Content-Type", "application/x-ndjson"))
	if got.Created != 4 || !slices.Equal(got.ExistedLines, []int{5, 6}) {
		t.Errorf("%d created, %v existed", got.Created, got.ExistedLines)
	}
	want := map[int][2]string{
		3: {"", "the line ends"}, 7: {"rule", "absent: not found"}, 8: {"", `did you mean "key"?`}, 9: {"key", "not a text"}, 10: {"key", "missing"},
		11: {"key", "empty"}, 13: {"key", "513 bytes are too many; the limit is 512"}, 14: {"", "horizon"}, 15: {"since", "2026-01-31T15:04:05Z"},
		16: {"", "the limit is 262144"}, 17: {"event", "64 levels"}, 18: {"event", "not JSON"}, 19: {"", "without an end"}, 20: {"", "a line of its own"},
		21: {"key", "the field is duplicated"}, 22: {"key", "NUL"}, 23: {"key", "UTF-8"}, 24: {"", `\u0001`}, 25: {"", "backslash"}, 26: {"", "expected an object"},
		27: {"", "no value"}, 29: {"rule", "the limit is 63"}, 30: {"rule", "missing"}, 31: {"", "name of a field"},
	}
	for _, w := range got.RefusedLines {
		if of, ok := want[w.Line]; !ok || w.Field != of[0] || !strings.Contains(w.Message, of[1]) || len(w.Message) > 300 {
			t.Errorf("line %d, field %q: %.400s; want %q", w.Line, w.Field, w.Message, of)
		}
		delete(want, w.Line)
	}
	if len(want) > 0 {
		t.Errorf("not refused: %v", want)
	}
	if !slices.IsSortedFunc(got.RefusedLines, func(a, b web.RefusedLine) int { return a.Line - b.Line }) {
		t.Error("what was refused is not in the order of the lines")
	}
	j := get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1")
	if string(j.Event) != `{"id":"a}\"","total":12.50,"of":[{"n":1}]}` || !j.Since.Equal(s.now.Add(-time.Hour)) {
		t.Errorf("the first line: %+v", j)
	}
	if n := s.pendingJobs(); n != 5 {
		t.Errorf("%d jobs are pending, want 5", n)
	}
	for key, event := range map[string]string{"a%2Fb": "", "scalar": "null"} {
		if j := get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/"+key); string(j.Event) != event {
			t.Errorf("%s has the event %q", key, j.Event)
		}
	}
}

// TestBulkIsRefusedAsWhole checks that a body that is wrong as a whole creates no jobs.
func TestBulkIsRefusedAsWhole(t *testing.T) {
	s := newFixture(t)
	line := func(i int) string { return fmt.Sprintf(`{"rule": "order-unshipped", "key": "%d"}`+"\n", i) }
	var many strings.Builder
	for i := range web.MaxBulkLines {
		many.WriteString(line(i) + "\n")
	}
	for name, c := range map[string]struct {
		body, kind string
		status     int
		is         web.Kind
		part       string
	}{
		"one line too many": {many.String() + line(-1), "", 413, web.TooLarge, "more than 10000 lines"},
		"too many bytes":    {strings.Repeat(" ", web.MaxBulkBytes+1), "", 413, web.TooLarge, "16777216"},
		"blank":             {"\n \n", "", 422, web.Invalid, "it is empty"},
		"an array":          {"\n[" + line(1) + "]", "application/json", 422, web.Invalid, "jq -c"},
		"a form":            {line(1), "application/x-www-form-urlencoded", 415, web.UnsupportedType, "--data-binary"},
	} {
		checkProblem(t, requestPath(t, s.Server, "POST", bulkPath, c.body, "Content-Type", c.kind), c.status, c.is, c.part)
		if n := s.pendingJobs(); n != 0 {
			t.Fatalf("%s: %d jobs began", name, n)
		}
	}
	if a := requestPath(t, s.Server, "POST", bulkPath, ""); a.StatusCode != 400 {
		t.Errorf("no body: %d %s", a.StatusCode, a.body)
	}
	// The largest number of lines, with as many blank ones.
	if got := decodeBulk(t, requestPath(t, s.Server, "POST", bulkPath, many.String())); got.Created != web.MaxBulkLines || got.Refused+got.Existed > 0 {
		t.Errorf("%d were created of %d", got.Created, web.MaxBulkLines)
	}
	if got := decodeBulk(t, requestPath(t, s.Server, "POST", bulkPath, many.String())); got.Existed != web.MaxBulkLines || got.Created > 0 {
		t.Errorf("%d existed of %d", got.Existed, web.MaxBulkLines)
	}
}

// TestRepeatedBulk checks that a repeated request is not executed again; the same body may be, since its keys exist.
func TestRepeatedBulk(t *testing.T) {
	s := newFixture(t)
	body := `{"rule": "order-unshipped", "key": "1"}` + "\n" + `{"rule": "order-unshipped", "key": "2"}` + "\n{"
	first := requestPath(t, s.Server, "POST", bulkPath, body, "Idempotency-Key", "load-1")
	if got := decodeBulk(t, first); got.Created != 2 || got.Refused != 1 {
		t.Errorf("%+v", got)
	}
	failOn(t, s.Cancel(t.Context(), "order-unshipped", "2", ""))
	again := requestPath(t, s.Server, "POST", bulkPath, body, "Idempotency-Key", "load-1")
	if again.body != first.body || again.Header.Get("Idempotent-Replayed") != "true" || s.pendingJobs() != 1 {
		t.Errorf("it was done again: %s, %d pending", again.body, s.pendingJobs())
	}
	checkProblem(t, requestPath(t, s.Server, "POST", bulkPath, body+"}", "Idempotency-Key", "load-1"), 422, web.IdempotencyConflict, "")
	if got := decodeBulk(t, requestPath(t, s.Server, "POST", bulkPath, body)); got.Created != 1 || !slices.Equal(got.ExistedLines, []int{1}) {
		t.Errorf("the same body: %+v", got)
	}
}

// TestBulkOfSomeRules checks that a token with a prefix creates jobs of its rules only, and that the audit log counts
// them by rule. A paused rule accepts manual jobs, as for a single one.
func TestBulkOfSomeRules(t *testing.T) {
	s := newFixture(t, closedNode)
	for _, name := range []string{"shop-late", "shop-paid"} {
		s.saveRule(strings.ReplaceAll(unshippedRule, "order-unshipped", name))
	}
	failOn(t, s.rules.Pause(t.Context(), "shop-paid", true))
	body := `{"rule": "shop-late", "key": "1"}
{"rule": "order-unshipped", "key": "2"}
{"rule": "shop-paid", "key": "3"}
{"rule": "shop-late", "key": "4"}`
	if a := requestPath(t, s.Server, "POST", bulkPath, body, s.newToken("reader", "", access.Read)...); a.StatusCode != 403 {
		t.Errorf("a token without the scope: %d %s", a.StatusCode, a.body)
	}
	got := decodeBulk(t, requestPath(t, s.Server, "POST", bulkPath, body, s.newToken("shop", "shop-", access.Rules)...))
	if got.Created != 3 || len(got.RefusedLines) != 1 || got.RefusedLines[0].Line != 2 || got.RefusedLines[0].Field != "rule" || !strings.Contains(got.RefusedLines[0].Message, "shop-*") {
		t.Errorf("%+v", got)
	}
	entries, _, err := s.store.Audit(t.Context(), access.AuditFilter{Action: "job.create"})
	failOn(t, err)
	var texts []string
	for _, e := range entries {
		texts = append(texts, e.Actor.Name+" "+e.Object+" "+e.Detail)
	}
	slices.Sort(texts)
	if want := []string{"shop job/shop-late jobs: 2", "shop job/shop-paid jobs: 1"}; !slices.Equal(texts, want) {
		t.Errorf("audited: %q, want %q", texts, want)
	}
}

// TestBulkIsSerialized checks that requests wait while all turns are taken.
func TestBulkIsSerialized(t *testing.T) {
	s := newFixture(t)
	const turns = 4
	var slow [turns]*io.PipeWriter
	answers := make(chan error, turns)
	for i := range slow {
		body, w := io.Pipe()
		slow[i] = w
		t.Cleanup(func() { _ = w.Close() }) // before the server waits for its requests
		go func() {
			a, err := http.Post(s.URL+bulkPath, "application/x-ndjson", body)
			if err == nil {
				err = a.Body.Close()
			}
			answers <- err
		}()
		_, err := fmt.Fprintf(w, `{"rule": "order-unshipped",`)
		failOn(t, err)
	}
	quick := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL+bulkPath, strings.NewReader(`{"rule": "order-unshipped", "key": "quick"}`))
		failOn(t, err)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		return a.Body.Close()
	}
	for deadline := time.Now().Add(2 * time.Minute); quick() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("one more is answered while all turns are taken")
		}
	}
	for i, w := range slow {
		fmt.Fprintf(w, ` "key": "%d"}`, i)
		failOn(t, w.Close())
		failOn(t, <-answers)
	}
	if got := decodeBulk(t, requestPath(t, s.Server, "POST", bulkPath, `{"rule": "order-unshipped", "key": "last"}`)); got.Created != 1 || s.pendingJobs() < turns+1 {
		t.Errorf("afterwards: %+v, %d pending", got, s.pendingJobs())
	}
}

// TestRuleNamedBulk checks that a rule may have the name bulk, with its jobs at the usual paths.
func TestRuleNamedBulk(t *testing.T) {
	s := newFixture(t)
	s.saveRule(strings.ReplaceAll(unshippedRule, "order-unshipped", "bulk"))
	decodeJob(t, requestPath(t, s.Server, "POST", "/api/v1/jobs", `{"rule": "bulk", "key": "1"}`), 201)
	if j := get[web.Job](t, s.Server, "/api/v1/jobs/bulk?key=1"); j.Rule != "bulk" {
		t.Errorf("%+v", j)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/jobs/bulk?key=1", ""); a.StatusCode != 204 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
