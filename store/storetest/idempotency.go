package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/access"
)

func requestsAreDoneOnce(t *testing.T, w *world) {
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
	want := access.Reply{Status: 201, Header: map[string]string{"Location": "/x", "Etag": `"3"`}, Body: []byte("{\"a\":\"\x00\xff\"}")}
	w.must(w.Finish(w.ctx(), key, want))
	w.must(w.Finish(w.ctx(), key, access.Reply{Status: 500})) // the first answer stays
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

func requestsAreForgotten(t *testing.T, w *world) {
	for range 2 {
		if reply, err := w.Begin(w.ctx(), "k", [32]byte{1}); reply != nil || err != nil {
			t.Fatalf("begin: %v, %v", reply, err)
		}
		w.must(w.Forget(w.ctx(), "k"))
	}
	must[*access.Reply](t)(w.Begin(w.ctx(), "k", [32]byte{2})) // with another body, too
	w.must(w.Finish(w.ctx(), "k", access.Reply{Status: 204}))
	got := must[*access.Reply](t)(w.Begin(w.ctx(), "k", [32]byte{2}))
	if got == nil || got.Status != 204 || len(got.Body) != 0 || len(got.Header) != 0 {
		t.Errorf("an answer without a body: %+v", got)
	}
}
