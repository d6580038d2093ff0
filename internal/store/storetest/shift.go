package storetest

import (
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
)

// stepsAreFollowedOnce checks the shifts after nodes follow steps of the clock.
func stepsAreFollowedOnce(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	follow := func(by time.Duration, isBack bool) []futurejobs.Shift {
		t.Helper()
		w.must(w.FollowStep(w.ctx(), by, isBack))
		return must[[]futurejobs.Shift](t)(w.Shifts(w.ctx()))
	}
	end := func(all []futurejobs.Shift) {
		t.Helper()
		for _, s := range all {
			w.must(w.EndShift(w.ctx(), s))
		}
	}
	if got := follow(time.Hour, false); len(got) != 0 {
		t.Errorf("a step ahead moves jobs: %+v", got)
	}
	got := follow(-time.Hour-time.Second, true)
	if len(got) != w.Shards() || got[0].Undoes == 0 || got[0].By != -time.Hour-time.Second {
		t.Errorf("a step that takes back one ahead: %+v", got)
	}
	end(got)
	back := follow(-24*time.Hour, false)
	if len(back) != w.Shards() || back[0].Undoes != 0 {
		t.Fatalf("a step back: %+v", back)
	}
	j := w.one("a")
	for _, s := range back {
		if s.Shard == j.Shard && s.LastID < j.ID {
			t.Errorf("job %d of shard %d is not from before the step: %+v", j.ID, j.Shard, s)
		}
	}
	again := follow(-24*time.Hour, false)
	if len(again) != 2*w.Shards() {
		t.Errorf("the same node stepped back a second time: %+v", again)
	}
	end(again)
	ahead := follow(24*time.Hour+time.Second, true)
	if len(ahead) != w.Shards() || ahead[0].Undoes != again[len(again)-1].Step || ahead[0].Step != ahead[0].Undoes+1 {
		t.Errorf("a step that takes back one back: %+v", ahead)
	}
	if done := must[[]futurejobs.Shift](t)(w.Shifts(w.ctx())); len(done) != w.Shards() {
		t.Errorf("what was not moved yet by the step that is taken back is still to be moved: %+v", done)
	}
}

// jobsAreShiftedOnce shifts jobs with concurrent changes of their rows.
func jobsAreShiftedOnce(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	w.must(w.FollowStep(w.ctx(), -time.Hour, false))
	was := w.one("a")
	shift := futurejobs.Shift{Shard: was.Shard}
	for _, s := range must[[]futurejobs.Shift](t)(w.Shifts(w.ctx())) {
		if s.Shard == was.Shard {
			shift = s
		}
	}
	read := func() []futurejobs.Shiftable {
		t.Helper()
		return must[[]futurejobs.Shiftable](t)(w.Shiftables(w.ctx(), futurejobs.ShardCursor{Shard: was.Shard}, 10))
	}
	page := read()
	if len(page) != 1 || page[0].ID != was.ID || page[0].Rev != was.Rev || !page[0].Next.Equal(was.NextCheckAt) || !page[0].Since.Equal(was.Since) || page[0].Shifted != 0 {
		t.Fatalf("%+v of %+v", page, was)
	}
	moved := 0
	move := func(j *futurejobs.Job) {
		moved++
		j.Since, j.FirstCheckAt, j.NextCheckAt = j.Since.Add(-time.Hour), j.FirstCheckAt.Add(-time.Hour), j.NextCheckAt.Add(-time.Hour)
	}
	stale := page[0]
	stale.Rev--
	if n := must[int](t)(w.ShiftJobs(w.ctx(), shift, []futurejobs.Shiftable{stale}, move)); n != 0 || moved != 0 {
		t.Errorf("%d jobs were written, %d moved, of one that has changed", n, moved)
	}
	if n := must[int](t)(w.ShiftJobs(w.ctx(), shift, page, move)); n != 1 || moved != 1 {
		t.Errorf("%d jobs were written, %d moved", n, moved)
	}
	is := w.one("a")
	if is.Rev != was.Rev+1 || !is.Since.Equal(was.Since.Add(-time.Hour)) || !is.NextCheckAt.Equal(was.NextCheckAt.Add(-time.Hour)) ||
		!is.FirstCheckAt.Equal(was.FirstCheckAt.Add(-time.Hour)) || string(is.Event) != string(was.Event) {
		t.Errorf("%+v became %+v", was, is)
	}
	if page := read(); len(page) != 1 || page[0].Shifted != shift.Step {
		t.Errorf("%+v after step %d", page, shift.Step)
	}
	if n := must[int64](t)(w.Shifted(w.ctx())); n != 1 {
		t.Errorf("%d jobs were moved", n)
	}
	if n := must[int](t)(w.ShiftJobs(w.ctx(), shift, page, move)); n != 0 {
		t.Errorf("the job was moved a second time as it was read at first")
	}
}
