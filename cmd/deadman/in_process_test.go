package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"deadman/internal/bus/bustest"
	"deadman/server"
)

// inProcessNode is a node in this process with a client over HTTP.
type inProcessNode struct {
	t    *testing.T
	at   server.Endpoints
	dir  string // data folder
	env  []string
	stop func() // waits until the node has stopped
}

// newInProcessNode runs a fresh node until the test ends.
func newInProcessNode(t *testing.T, change ...func(*server.Config)) *inProcessNode {
	t.Helper()
	ready := make(chan server.Endpoints, 1)
	c := server.Config{
		DataDir: bustest.Dir(t), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Shards: 4,
		Log: slog.New(slog.DiscardHandler), Ready: func(at server.Endpoints) { ready <- at },
	}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, c) }()
	h := &inProcessNode{t: t, dir: c.DataDir}
	h.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the node does not stop well: %v", err)
		}
		h.stop = func() {}
	}
	t.Cleanup(func() { h.stop() })
	select {
	case h.at = <-ready:
	case err := <-ended:
		h.stop = func() { cancel() }
		t.Fatalf("the node does not serve: %v", err)
	}
	h.env = []string{"DEADMAN_URL=" + h.at.HTTP}
	return h
}

// run runs the program in this process with an input.
func (h *inProcessNode) run(input string, args ...string) result {
	h.t.Helper()
	return runInProcess(h.t, input, h.env, args...)
}

func runInProcess(t *testing.T, input string, env []string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	p := newCLI(strings.NewReader(input), &out, &errOut, env)
	p.zone = time.UTC
	code := p.run(t.Context(), args)
	return result{code, out.String(), errOut.String()}
}

// mustRun runs a command that must succeed, and returns its output.
func (h *inProcessNode) mustRun(args ...string) string {
	h.t.Helper()
	got := h.run("", args...)
	if got.code != exitOK {
		h.t.Fatalf("%v: %+v", args, got)
	}
	return got.out
}

// expect runs a command and checks its exit code and parts of its output.
func (h *inProcessNode) expect(code int, args []string, parts ...string) result {
	h.t.Helper()
	got := h.run("", args...)
	got.check(h.t, args, code, parts...)
	return got
}

func (r result) check(t *testing.T, args []string, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, r.code, code, r.out, r.err)
	}
	for _, part := range parts {
		if !strings.Contains(r.out+r.err, part) {
			t.Errorf("%v does not contain %q:\n%s%s", args, part, r.out, r.err)
		}
	}
}

// readJSON runs a command that must succeed and decodes its JSON output.
func readJSON[T any](h *inProcessNode, args ...string) (v T) {
	h.t.Helper()
	out := h.mustRun(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		h.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return v
}
