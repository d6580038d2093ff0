package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"reflect"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/replay"
	"deadman/web"
)

// functions returns the functions for templates.
func (u *UI) functions() template.FuncMap {
	return template.FuncMap{
		"asset":        u.assets.Path,
		"visible":      escapeControls,
		"several":      func(rule string) bool { return strings.HasSuffix(rule, futurejobs.Several) },
		"addInts":      func(a, b int) int { return a + b },
		"at":           func(t time.Time) (template.HTML, error) { return clock(t, "relative") },
		"since":        func(t time.Time) (template.HTML, error) { return clock(t, "since") },
		"exactly":      func(t time.Time) (template.HTML, error) { return clock(t, "exact") },
		"dated":        func(t time.Time) (template.HTML, error) { return clock(t, "dated") }, // with its date, also of today
		"utc":          func(t time.Time) (template.HTML, error) { return clock(t, "utc") },   // beside other times in UTC
		"hour":         func(t time.Time) (template.HTML, error) { return clock(t, "hour") },
		"figure":       func(n any) string { return number(reflect.ValueOf(n).Int()) }, // any integer type
		"carried":      encodeFormText,
		"jobID":        jobID,
		"displayedJob": displayedJobID,
		"entityAt":     entityPath,
		"jobsOf":       func(prefix string) string { return "/jobs?" + url.Values{"key": {prefix + "*"}}.Encode() },
		"words":        func(word any) string { return strings.ReplaceAll(fmt.Sprint(word), "_", " ") },
		"count":        count,
		"counts":       replay.Counts,
		"seconds":      replay.DurationText,
		"int":          func(n uint64) int { return int(min(n, math.MaxInt32)) },
		"alertStyle":   alertStyle,
		"outcome":      outcome,
		"outcomes":     checks.Outcomes,
		"took":         func(e web.EndedJob) string { return roughly(e.EndedAt.Sub(e.Since)) },
		"lateness":     func(late float64) string { return roughly(seconds(late)) },
		"outageOf":     outageOf,
		"remedyOf":     web.RemedyOf,
		"outagesAt":    func() string { return outagesAt },
		"ofWait":       ofWait,
		"shape":        shape,
		"sparkline":    sparkline,
		"tabs":         func(here string, some bool) alertTabs { return alertTabs{here, some} },
		"gallery":      func() []sample { return u.gallery },
		"precisely":    func(s float64) string { return precisely(seconds(s)) },
	}
}

// layouts maps the display mode of a time to its format in UTC.
var layouts = map[string]string{"relative": "2006-01-02 15:04:05 UTC", "exact": "2006-01-02 15:04:05 UTC", "dated": "2006-01-02 15:04:05 UTC", "since": "2006-01-02 15:04:05 UTC", "hour": "15:04", "utc": "2006-01-02 15:04 UTC"}

// clock renders a time in UTC. The page's script rewrites it for the viewer.
func clock(t time.Time, show string) (template.HTML, error) {
	if t.IsZero() {
		return "", nil
	}
	t = t.UTC()
	prefix := ""
	if show == "since" {
		prefix = "since "
	}
	// The values contain digits, punctuation and ASCII letters only.
	return template.HTML(prefix + fmt.Sprintf(`<time datetime="%s" data-show="%s">%s</time>`, //nolint:gosec // see above
		t.Format(time.RFC3339), show, t.Format(layouts[show]))), nil
}

// entityPath returns the page of an entity's key. The key is in the query, because it may not fit a path.
func entityPath(entity, key string) string {
	return "/entities/" + url.PathEscape(entity) + "?" + url.Values{"key": {key}}.Encode()
}

// alertStyle returns the style of an alert: the severity if it is firing, otherwise the status.
func alertStyle(a web.Alert) string {
	if a.Status == alerts.Firing {
		return string(a.Severity)
	}
	return string(a.Status)
}

// count returns a number with its noun, such as "1 job" or "12 jobs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(int64(n)) + " " + noun + "s"
}

// outcome returns the style of a job's outcome.
func outcome(o checks.Outcome) string {
	switch {
	case o == checks.Cancelled, o == checks.Restarted, o == checks.RuleDeleted:
		return "waiting"
	case o == checks.Exhausted:
		return "error"
	case o == checks.Expired, o == checks.Undetermined, o.IsGuard():
		return "critical"
	}
	return "resolved"
}

// indented indents JSON. Other text stays unchanged.
func indented(text []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}
