package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

func requestsAreDoneOnce(t *testing.T, w *fixture) {
	const key = "actor\x00route\xffkey"
	body, other := [32]byte{1}, [32]byte{2}
	var firsts atomic.Int32
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			reply, err := w.Begin(w.ctx(), key, body)
			switch {
			case err == nil && reply == nil:
				firsts.Add(1)
			case !errors.Is(err, access.ErrRunning):
				t.Errorf("begin: %+v, %v", reply, err)
			}
		})
	}
	clients.Wait()
	if firsts.Load() != 1 {
		t.Fatalf("%d requests are the first", firsts.Load())
	}
	if _, err := w.Begin(w.ctx(), key, other); !errors.Is(err, access.ErrOtherBody) {
		t.Errorf("another body: %v, want ErrOtherBody", err)
	}
	want := access.StoredResponse{Status: 201, Header: map[string]string{"Location": "/x", "Etag": `"3"`}, Body: []byte("{\"a\":\"\x00\xff\"}")}
	w.must(w.Finish(w.ctx(), key, want))
	w.must(w.Finish(w.ctx(), key, access.StoredResponse{Status: 500})) // the first answer stays
	w.must(w.Forget(w.ctx(), key))
	got, err := w.Begin(w.ctx(), key, body)
	if err != nil || got == nil {
		t.Fatalf("begin: %v, %v, want the answer", got, err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if _, err := w.Begin(w.ctx(), key, other); !errors.Is(err, access.ErrOtherBody) {
		t.Errorf("another body after the answer: %v, want ErrOtherBody", err)
	}
}

func requestsAreForgotten(t *testing.T, w *fixture) {
	for range 2 {
		if reply, err := w.Begin(w.ctx(), "k", [32]byte{1}); reply != nil || err != nil {
			t.Fatalf("begin: %v, %v", reply, err)
		}
		w.must(w.Forget(w.ctx(), "k"))
	}
	must[*access.StoredResponse](t)(w.Begin(w.ctx(), "k", [32]byte{2})) // with another body, too
	w.must(w.Finish(w.ctx(), "k", access.StoredResponse{Status: 204}))
	got := must[*access.StoredResponse](t)(w.Begin(w.ctx(), "k", [32]byte{2}))
	if got == nil || got.Status != 204 || len(got.Body) != 0 || len(got.Header) != 0 {
		t.Errorf("an answer without a body: %+v", got)
	}
}

// requestOutcomeIsKept checks that the jobs of a request and its outcome are one transaction: it is applied once,
// even if its answer is lost several times, and has the same result again. A request that wrote nothing may be applied
// again.
func requestOutcomeIsKept(t *testing.T, w *fixture) {
	body := [32]byte{1}
	begin := func() {
		t.Helper()
		if reply, err := w.Begin(w.ctx(), "k", body); reply != nil || err != nil {
			t.Fatalf("begin: %v, %v", reply, err)
		}
	}
	batch := futurejobs.EffectBatch{RuleSet: w.set, AuditAction: "job.create", Bulk: true, RequestID: "k", Effects: []futurejobs.Effect{
		w.starting(w.rule, "a", w.slot()), w.starting(w.rule, "b", w.slot()),
	}}
	if _, err := w.Apply(w.ctx(), batch); !errors.Is(err, access.ErrRunning) {
		t.Errorf("without its claim: %v, want ErrRunning", err)
	}
	if n := len(w.all()); n != 0 {
		t.Errorf("%d jobs without the claim", n)
	}
	known := func(want bool) {
		t.Helper()
		if is := must[bool](t)(w.Known(w.ctx(), "k")); is != want {
			t.Errorf("known: %t, want %t", is, want)
		}
	}
	known(false)
	begin()
	w.must(w.Forget(w.ctx(), "k")) // it was refused
	known(false)
	begin()
	known(true)
	stale := batch
	stale.RuleSet--
	if _, err := w.Apply(w.ctx(), stale); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("by other rules: %v, want ErrRulesChanged", err)
	}
	if _, err := w.Begin(w.ctx(), "k", body); !errors.Is(err, access.ErrRunning) {
		t.Errorf("begun: %v, want ErrRunning", err)
	}
	first := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch))
	if first.Created != 2 || first.Repeated {
		t.Errorf("carried out: %+v", first)
	}
	known(true)
	w.must(w.Forget(w.ctx(), "k")) // its answer was lost
	known(true)
	w.applyManually(w.ending(w.rule, "a"))
	begin()
	again := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch))
	if again.Created != 2 || !again.Repeated {
		t.Errorf("carried out again: %+v", again)
	}
	if n := len(w.all()); n != 1 {
		t.Errorf("%d jobs after that, want the one that has not ended", n)
	}
	if _, err := w.Begin(w.ctx(), "k", [32]byte{2}); !errors.Is(err, access.ErrOtherBody) {
		t.Errorf("another body: %v, want ErrOtherBody", err)
	}
	w.must(w.Finish(w.ctx(), "k", access.StoredResponse{Status: 201, Body: []byte("{}")}))
	if got, err := w.Begin(w.ctx(), "k", body); err != nil || got == nil || got.Status != 201 {
		t.Errorf("answered: %+v, %v", got, err)
	}
}
