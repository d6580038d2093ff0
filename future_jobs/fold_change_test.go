package futurejobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"deadman/alerts"
	"deadman/checks"
)

// pendingState returns a pending job of orderRule, due in three hours.
func pendingState() (*Rule, map[Ref]Job) {
	rule := orderRule()
	ref := Ref{RuleID: 1, Key: "1"}
	return rule, map[Ref]Job{ref: {
		Ref: ref, ID: 7, Rev: 4, Version: 1, CreatedAt: noon, Since: noon,
		FirstCheckAt: noon.Add(3 * time.Hour), NextCheckAt: noon.Add(3 * time.Hour), Event: json.RawMessage(`{"a":1}`),
	}}
}

// alertingState is waiting with an open alert of the job.
func alertingState() (*Rule, map[Ref]Job) {
	rule, pending := pendingState()
	for ref, job := range pending {
		job.Alerts = []alerts.ID{{1}}
		pending[ref] = job
	}
	return rule, pending
}

func effectOf(rule *Rule, a Action) Effect {
	return Effect{Rule: rule, Ref: Ref{RuleID: 1, Key: "1"}, Action: a}
}

func TestPauseMovesNextCheckByItsLength(t *testing.T) {
	rule, pending := pendingState()
	paused := noon.Add(time.Hour)
	net := foldEffects([]Effect{effectOf(rule, Pause{}).at(paused)}, pending, paused.Add(time.Second))
	job := net.Change[0]
	if !job.NextCheckAt.Equal(FarFuture) || !job.PausedAt().Equal(paused) || net.Paused != 1 {
		t.Fatalf("paused at %s, due at %s", job.PausedAt(), job.NextCheckAt)
	}

	again := foldEffects([]Effect{effectOf(rule, Pause{}).at(paused.Add(time.Minute))}, map[Ref]Job{job.Ref: job}, paused.Add(time.Hour))
	if again.Missed != 1 || len(again.Change) != 0 {
		t.Errorf("a second pause changed %+v", again.Change)
	}

	resumed := paused.Add(90 * time.Minute)
	net = foldEffects([]Effect{effectOf(rule, Resume{}).at(resumed)}, map[Ref]Job{job.Ref: job}, resumed)
	job = net.Change[0]
	if want := noon.Add(4*time.Hour + 30*time.Minute); !job.NextCheckAt.Equal(want) || !job.PausedAt().IsZero() {
		t.Errorf("due at %s, want %s", job.NextCheckAt, want)
	}
	if want := (checks.Pause{From: paused, To: resumed}); !slices.Equal(job.Pauses, []checks.Pause{want}) {
		t.Errorf("pauses %v", job.Pauses)
	}

	// Resumed long ago: no check is scheduled behind the sweep.
	late := noon.Add(24 * time.Hour)
	net = foldEffects([]Effect{effectOf(rule, Pause{}).at(paused), effectOf(rule, Resume{}).at(resumed)}, pending, late)
	if want := late.Add(time.Minute); !net.Change[0].NextCheckAt.Equal(want) {
		t.Errorf("due at %s, want the first slot after now, %s", net.Change[0].NextCheckAt, want)
	}
}

func TestPausesAreBounded(t *testing.T) {
	rule, pending := pendingState()
	var effects []Effect
	at := noon
	total := time.Duration(0)
	for i := range 3 * maxPauses {
		span := time.Duration(i+1) * time.Second
		effects = append(effects, effectOf(rule, Pause{}).at(at), effectOf(rule, Resume{}).at(at.Add(span)))
		at = at.Add(span + time.Minute)
		total += span
	}
	job := foldEffects(effects, pending, noon).Change[0]
	var sum time.Duration
	for _, p := range job.Pauses {
		sum += p.To.Sub(p.From)
	}
	if len(job.Pauses) > maxPauses || sum != total {
		t.Errorf("%d pauses of %s, want at most %d of %s", len(job.Pauses), sum, maxPauses, total)
	}
}

func TestUpdateLeavesRevAlone(t *testing.T) {
	rule, pending := pendingState()
	merge := Update{Merge: func(known json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`[` + string(known) + `]`), nil
	}}
	net := foldEffects([]Effect{effectOf(rule, merge), effectOf(rule, merge)}, pending, noon)
	if len(net.Change) != 0 || len(net.Update) != 1 || string(net.Update[0].State) != `[[{"a":1}]]` || net.Updated != 2 {
		t.Errorf("net %+v", net)
	}
	if string(net.Update[0].Event) != `{"a":1}` {
		t.Errorf("the trigger's body became %s", net.Update[0].Event)
	}

	bad := Update{Merge: func(json.RawMessage) (json.RawMessage, error) { return nil, errors.New("no object") }}
	net = foldEffects([]Effect{effectOf(rule, bad).at(noon)}, pending, noon)
	if len(net.Update) != 0 || len(net.DeadLetters) != 1 || net.DeadLetters[0].Reason != "no object" || net.DeadLetters[0].Rule != rule.Name {
		t.Errorf("a bad update came to %+v", net)
	}
}

// listState is a state that lists its patches. It was parsed once.
type listState struct{ updates []string }

func (l *listState) Merge(update json.RawMessage) error {
	l.updates = append(l.updates, string(update))
	return nil
}

func (l *listState) Text() json.RawMessage {
	return json.RawMessage("[" + strings.Join(l.updates, ",") + "]")
}

// A run of updates parses the state of a job once, and that of its kept triggers: parsing a large state for each of
// 2,000 updates took 20 s per trigger.
func TestUpdatesParseStateOnce(t *testing.T) {
	rule, pending := pendingState()
	ref := Ref{RuleID: 1, Key: "1"}
	job := pending[ref]
	job.Order = &Order{Kept: []Kept{{At: noon.Add(time.Second), Since: noon.Add(time.Second)}, {At: noon.Add(time.Minute), Since: noon.Add(time.Minute)}}}
	pending[ref] = job
	apart := 0
	update := func(update string, at time.Time) Effect {
		e := effectOf(rule, Update{Patch: json.RawMessage(update), Begin: func(json.RawMessage) Merging { apart++; return &listState{} }}).at(at)
		e.Apart = true
		return e
	}
	later := noon.Add(2 * time.Second)
	net := foldEffects([]Effect{update("1", later), update("2", later), update("3", later.Add(time.Hour))}, pending, noon.Add(2*time.Hour))
	if apart != 3 {
		t.Errorf("states are taken apart %d times, want once for the job and for each trigger", apart)
	}
	if len(net.Update) != 1 || len(net.Reorder) != 1 {
		t.Fatalf("net %+v", net)
	}
	kept := net.Reorder[0].Order.Kept
	for i, got := range []json.RawMessage{net.Update[0].State, kept[0].State, kept[1].State} {
		if want := []string{"[1,2,3]", "[1,2,3]", "[3]"}[i]; string(got) != want {
			t.Errorf("known of the job and its triggers: %s at %d, want %s", got, i, want)
		}
	}
	if before := pending[ref].Order.Kept; before[0].State != nil || before[1].State != nil {
		t.Errorf("the fold changed what it was given: %s, %s", before[0].State, before[1].State)
	}
}

func TestRestartArchivesJobAndStartsAnother(t *testing.T) {
	rule, pending := pendingState()
	alertID := alerts.Decision{JobID: 7, CreatedAt: noon, Check: 1, Status: alerts.Firing, At: noon}.ID()
	ref := Ref{RuleID: 1, Key: "1"}
	job := pending[ref]
	job.Alerts = []alerts.ID{alertID}
	pending[ref] = job
	again := start(rule, "1", noon.Add(9*time.Hour))
	start := again.Action.(Start)
	start.Restart = true
	start.Close = func(Job) alerts.Draft { return alerts.Draft{Status: alerts.Resolved} }

	net := foldEffects([]Effect{again.withAction(start), again.withAction(start)}, pending, noon)
	switch {
	case len(net.End) != 1 || net.End[0].Outcome != checks.Restarted || net.End[0].Job.ID != 7:
		t.Errorf("ended %+v", net.End)
	case len(net.End[0].Alerts) != 1 || !slices.Equal(net.End[0].Alerts[0].Closes, []alerts.ID{alertID}):
		t.Errorf("closing %+v", net.End[0].Alerts)
	case len(net.StartedAndEnded) != 1 || net.StartedAndEnded[0].Outcome != checks.Restarted:
		t.Errorf("born %+v", net.StartedAndEnded)
	case len(net.Create) != 1 || net.Restarted != 2 || net.Created != 2 || net.Ended != 2:
		t.Errorf("net %+v", net.EffectCounts)
	}
}

func TestEndBeforeItsTriggerIsRemembered(t *testing.T) {
	rule := orderRule()
	early := end(rule, "1")
	end := early.Action.(End)
	end.Early = time.Hour
	early = early.withAction(end).at(noon.Add(time.Minute))
	begin := start(rule, "1", noon.Add(3*time.Hour))
	starting := begin.Action.(Start)
	starting.Early = true
	begin = begin.withAction(starting)

	net := foldEffects([]Effect{early}, nil, noon.Add(time.Minute))
	if len(net.Remember) != 1 || net.Remembered != 1 || net.Missed != 0 {
		t.Fatalf("net %+v", net)
	}
	stored := net.Remember[0]
	if !stored.Until.Equal(noon.Add(61*time.Minute)) || stored.Outcome != checks.Resolved {
		t.Errorf("remembered %+v", stored)
	}

	later := FoldInput{Early: map[Ref]EarlyEvent{stored.Ref: stored}}
	net = Fold([]Effect{begin}, later, noon.Add(2*time.Minute))
	if len(net.StartedAndEnded) != 1 || net.StartedAndEnded[0].Outcome != checks.Resolved || net.StartedAndEnded[0].Reason == "" || len(net.Create) != 0 {
		t.Errorf("a trigger that is not newer came to %+v", net)
	}
	if !slices.Equal(net.Forget, []Ref{stored.Ref}) {
		t.Errorf("forgotten: %v", net.Forget)
	}

	starting.Job.Since = stored.At
	net = Fold([]Effect{begin.withAction(starting)}, later, noon.Add(2*time.Minute))
	if len(net.StartedAndEnded) != 1 || len(net.Create) != 0 {
		t.Errorf("a trigger of the same instant came to %+v", net)
	}

	starting.Job.Since = noon.Add(5 * time.Minute)
	net = Fold([]Effect{begin.withAction(starting)}, later, noon.Add(5*time.Minute))
	if len(net.Create) != 1 || len(net.StartedAndEnded) != 0 || len(net.Forget) != 0 {
		t.Errorf("a newer trigger came to %+v", net)
	}
	net = Fold([]Effect{begin}, later, stored.Until)
	if len(net.Create) != 1 {
		t.Errorf("what is remembered no longer still ends %+v", net.StartedAndEnded)
	}
	both := foldEffects([]Effect{early, begin}, nil, noon.Add(2*time.Minute))
	if len(both.StartedAndEnded) != 1 || len(both.Remember) != 0 || len(both.Forget) != 0 {
		t.Errorf("in one run: %+v", both)
	}
}

func TestSetEndsWithItsLastMember(t *testing.T) {
	rule, pending := pendingState()
	file := func(name string) Effect {
		return effectOf(rule, AddMember{
			Set: 1, Member: name, Need: func(Job) (int, error) { return 3, nil },
			End: End{Outcome: checks.Resolved, Early: time.Hour},
		}).at(noon)
	}
	net := foldEffects([]Effect{file("a"), file("b"), file("a")}, pending, noon)
	if len(net.End) != 0 || len(net.Update) != 1 || net.Update[0].Members.Count(1) != 2 || net.Update[0].Members.Count(0) != 0 {
		t.Fatalf("net %+v", net)
	}
	net = foldEffects([]Effect{file("b"), file("c"), file("d")}, map[Ref]Job{net.Update[0].Ref: net.Update[0]}, noon)
	if len(net.End) != 1 || net.Remembered != 1 {
		t.Errorf("net %+v", net)
	}

	// Files that arrive before the batch is announced.
	begin := start(rule, "1", noon.Add(time.Hour))
	starting := begin.Action.(Start)
	starting.Early, starting.Sets = true, []AddMember{file("x").Action.(AddMember)}
	net = foldEffects([]Effect{file("a"), file("b"), file("c"), begin.withAction(starting)}, nil, noon)
	if len(net.StartedAndEnded) != 1 || len(net.Create) != 0 {
		t.Errorf("all members came before: %+v", net)
	}
	net = foldEffects([]Effect{file("a"), file("b"), begin.withAction(starting)}, nil, noon)
	if len(net.Create) != 1 || net.Create[0].Members.Count(1) != 2 {
		t.Errorf("two members came before: %+v", net)
	}
}

func TestUserActions(t *testing.T) {
	rule, pending := pendingState()
	net := foldEffects([]Effect{effectOf(rule, Snooze{Until: noon.Add(5*time.Hour + time.Second)})}, pending, noon)
	if want := noon.Add(5*time.Hour + time.Minute); !net.Change[0].NextCheckAt.Equal(want) || !net.Change[0].FirstCheckAt.Equal(noon.Add(3*time.Hour)) {
		t.Errorf("snoozed to %s, first %s", net.Change[0].NextCheckAt, net.Change[0].FirstCheckAt)
	}

	newer := *rule
	newer.Version = 2
	move := MoveToVersion{Next: func(Job) time.Time { return noon.Add(-time.Hour) }}
	net = foldEffects([]Effect{effectOf(&newer, move), effectOf(&newer, move)}, pending, noon)
	if net.Change[0].Version != 2 || !net.Change[0].NextCheckAt.Equal(noon.Add(time.Minute)) || net.Changed != 1 || net.Missed != 1 {
		t.Errorf("moved %+v", net)
	}

	stale := int32(3)
	cancel := Cancel(rule, Ref{RuleID: 1, Key: "1"}, "ada")
	cancel.Rev = &stale
	if net := foldEffects([]Effect{cancel}, pending, noon); net.Missed != 1 || len(net.End) != 0 {
		t.Errorf("a job at another rev was ended: %+v", net)
	}
}

// Playing effects in one run has the same result as playing them one at a time, each on the result of the one before.
func TestFoldAtOnceIsFoldOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := orderRule()
		effects := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Effect { return drawEffect(t, rule) }), 0, 20).Draw(t, "effects")
		now := noon.Add(time.Hour)

		stored := FoldInput{Pending: map[Ref]Job{}, Early: map[Ref]EarlyEvent{}}
		var single EffectCounts
		outcomes := []string{}
		for _, e := range effects {
			outcomes = append(outcomes, stored.write(Fold([]Effect{e}, stored, now), &single)...)
		}
		atOnce := FoldInput{Pending: map[Ref]Job{}, Early: map[Ref]EarlyEvent{}}
		var tally EffectCounts
		net := Fold(effects, atOnce, now)
		together := atOnce.write(net, &tally)
		slices.Sort(outcomes)
		slices.Sort(together)
		if tally != single {
			t.Fatalf("at once %+v\none by one %+v", tally, single)
		}
		if fmt.Sprint(outcomes) != fmt.Sprint(together) {
			t.Fatalf("ended at once %v, one by one %v", together, outcomes)
		}
		if got, want := fmt.Sprintf("%+v", atOnce.Pending), fmt.Sprintf("%+v", stored.Pending); got != want {
			t.Fatalf("jobs at once %s\none by one %s", got, want)
		}
		if got, want := fmt.Sprintf("%+v", atOnce.Early), fmt.Sprintf("%+v", stored.Early); got != want {
			t.Fatalf("remembered at once %s\none by one %s", got, want)
		}
	})
}

// write applies a net effect in the same way as a store, and returns the ends of jobs.
func (k *FoldInput) write(net FoldResult, sum *EffectCounts) (ended []string) {
	for _, d := range slices.Concat(net.End, net.StartedAndEnded) {
		delete(k.Pending, d.Job.Ref)
		ended = append(ended, d.Job.Key+" "+string(d.Outcome))
	}
	for _, j := range net.Create {
		k.Pending[j.Ref] = *j
	}
	for _, j := range slices.Concat(net.Change, net.Update) {
		k.Pending[j.Ref] = j
	}
	for _, early := range net.Remember {
		k.Early[early.Ref] = early
	}
	for _, ref := range net.Forget {
		delete(k.Early, ref)
	}
	sum.Created += net.Created
	sum.Ended += net.Ended
	sum.Kept += net.Kept
	sum.Missed += net.Missed
	sum.Restarted += net.Restarted
	sum.Updated += net.Updated
	sum.Paused += net.Paused
	sum.Resumed += net.Resumed
	sum.Remembered += net.Remembered
	sum.Changed += net.Changed
	sum.Refused += net.Refused
	return ended
}

// foldedKeys are two keys of most effects, and enough others for a run with a map of its jobs.
var foldedKeys = []string{"1", "1", "1", "1", "1", "1", "2", "2", "2", "2", "2", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}

func drawEffect(t *rapid.T, rule *Rule) Effect {
	at := noon.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minute")) * time.Minute)
	e := Effect{Rule: rule, Ref: Ref{RuleID: 1, Key: rapid.SampledFrom(foldedKeys).Draw(t, "key")}}.at(at)
	early := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "early")
	done := End{Outcome: checks.Resolved, Early: early}
	gather := AddMember{Set: 0, Member: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "member"), Need: func(Job) (int, error) { return 2, nil }, End: done}
	switch rapid.IntRange(0, 7).Draw(t, "action") {
	case 0, 1:
		return e.withAction(Start{
			Job:     Job{Version: 1, Since: at, FirstCheckAt: rule.Grid.Up(at.Add(time.Hour))},
			Restart: rapid.Bool().Draw(t, "restart"), Early: true, Sets: []AddMember{gather},
		})
	case 2:
		return e.withAction(done)
	case 3:
		return e.withAction(gather)
	case 4:
		return e.withAction(Update{Merge: func(json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"m":` + fmt.Sprint(at.Minute()) + `}`), nil
		}})
	case 5:
		return e.withAction(Pause{})
	case 6:
		return e.withAction(Resume{})
	}
	return e.withAction(Snooze{Until: at.Add(2 * time.Hour)})
}

// Jobs of a deleted rule raise no alert, for any kind of end.
func TestEndOfDeletedRulesJobIsNotAlerted(t *testing.T) {
	rule, pending := alertingState()
	ref := Ref{RuleID: 1, Key: "1"}
	rule.Closing = func(_ Job, text string) alerts.Draft { return alerts.Draft{Status: alerts.Resolved, Text: text} }
	if net := foldEffects([]Effect{Cancel(rule, ref, "ada")}, pending, noon); len(net.End) != 1 || len(net.End[0].Alerts) != 1 {
		t.Fatalf("nothing is tested: %+v", net.End)
	}
	rule.Deleted = true
	if net := foldEffects([]Effect{Cancel(rule, ref, "ada")}, pending, noon); len(net.End) != 1 || len(net.End[0].Alerts) != 0 {
		t.Errorf("ended %+v", net.End)
	}
}

// A set without a known size, or without a pending job, does not grow without bound.
func TestMembersAreBounded(t *testing.T) {
	rule, pending := pendingState()
	ref := Ref{RuleID: 1, Key: "1"}
	job := pending[ref]
	job.Members = make(Members, MaxMembers*memberSize)
	pending[ref] = job
	gather := AddMember{Member: "x", Need: func(Job) (int, error) { return 0, errors.New("unknown number") }, End: End{Early: time.Hour}}
	net := foldEffects([]Effect{effectOf(rule, gather).at(noon)}, pending, noon)
	if len(net.Update) != 0 || len(net.DeadLetters) != 1 || net.DeadLetters[0].Reason != errFull.Error() {
		t.Errorf("net %+v", net.EffectCounts)
	}
	early := FoldInput{Early: map[Ref]EarlyEvent{ref: {Ref: ref, Until: noon.Add(time.Hour), Members: job.Members}}}
	net = Fold([]Effect{effectOf(rule, gather).at(noon)}, early, noon)
	if len(net.DeadLetters) != 1 || len(net.Remember) != 1 || len(net.Remember[0].Members) != len(job.Members) {
		t.Errorf("early: %+v", net.EffectCounts)
	}
}
