package ui

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"deadman/internal/replay"
	"deadman/internal/replaytasks"
	"deadman/web"
)

// replayRanges are the selectable ranges of a replay, in days.
var replayRanges = []int{1, 7, 30, 90, 365}

// Ranges returns the selectable ranges of a replay, in days.
func (editorView) Ranges() []int { return replayRanges }

// replayPages serves the replays of the editor, as fragments of its page.
type replayPages struct{ *UI }

// replayView is a replay.
type replayView struct {
	web.Replay
	Error  string              // why it did not begin, or is unknown; empty: it did
	Places []web.ProblemDetail // errors of the rule
}

// Percent returns the progress in percent.
func (v replayView) Percent() int { return int(math.Floor(v.Progress * 100)) }

// Fired returns the number of firing alerts, and Played that of events.
func (v replayView) Fired() int  { return int(v.Raised) }
func (v replayView) Played() int { return int(v.Events) }

// Histogram returns the chart of the time until the jobs were resolved.
func (v replayView) Histogram() *replay.Chart {
	return v.Result.Histogram.Chart(v.Rule, v.Result.Summary.Caption())
}

// Timeline returns the chart of the alerts over time; nil: no alerts.
func (v replayView) Timeline() *replay.Chart { return v.Result.Timeline.Chart() }

// start starts a replay of the text in the editor. A visitor who may not change rules replays the saved version.
func (u replayPages) start(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c := client{u.api, r}
	v := replayView{}
	var err error
	if v.Replay, err = u.begin(c, r); err != nil {
		v.fail(err)
	}
	u.fragment(w, r, "editor", "replayed", v)
}

func (u replayPages) begin(c client, r *http.Request) (out web.Replay, err error) {
	days, err := strconv.Atoi(r.PostFormValue("days"))
	if err != nil || !slices.Contains(replayRanges, days) {
		return out, errTrial("Select the days of the replay.")
	}
	may, err := c.may()
	if err != nil {
		return out, err
	}
	request := web.ReplayRequest{Since: u.Now().UTC().AddDate(0, 0, -days)}
	if request.LookupResult, err = body("The lookup result", r.PostFormValue("found")); err != nil {
		return out, err
	}
	if name := r.PostFormValue("rule"); !may.Change && name != "" {
		err = c.do(http.MethodPost, rulePath(name)+"/replays", url.Values{"version": {r.PostFormValue("version")}}, request, &out)
		return out, err
	}
	text, err := json.Marshal(strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n"))
	if err != nil {
		return out, err
	}
	err = c.do(http.MethodPost, "/rules/replays", nil, web.UnsavedReplayRequest{Rule: text, ReplayRequest: request}, &out)
	return out, err
}

// fail records an error, with its places in the rule.
func (v *replayView) fail(err error) {
	v.Error = problemText(err)
	if problem := new(web.Problem); errors.As(err, &problem) {
		for _, d := range problem.Errors {
			if d.Line > 0 || d.Pointer != "" {
				v.Places = append(v.Places, d)
			}
		}
	}
}

// show shows the progress or the result of a replay.
func (u replayPages) show(w http.ResponseWriter, r *http.Request) {
	v := replayView{}
	if err := (client{u.api, r}).get(replayAt(r), nil, &v.Replay); err != nil {
		v.fail(err)
	}
	u.fragment(w, r, "editor", "replayed", v)
}

// cancel cancels a replay, and shows it. A replay that ended before is shown with its result, which DELETE would remove.
func (u replayPages) cancel(w http.ResponseWriter, r *http.Request) {
	c, v := client{u.api, r}, replayView{}
	err := c.get(replayAt(r), nil, &v.Replay)
	if err == nil && v.State == string(replaytasks.Running) {
		err = c.do(http.MethodDelete, replayAt(r), nil, nil, nil)
		v.State = string(replaytasks.Cancelled)
	}
	if err != nil {
		v.fail(err)
	}
	u.fragment(w, r, "editor", "replayed", v)
}

// replayAt returns the path of the replay of a request.
func replayAt(r *http.Request) string {
	return "/replays/" + url.PathEscape(chi.URLParam(r, "id"))
}
