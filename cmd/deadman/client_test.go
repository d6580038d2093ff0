package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// expiringContext is a context that expires when done is closed.
type expiringContext struct {
	context.Context
	done chan struct{}
}

func (e expiringContext) Done() <-chan struct{} { return e.done }

func (e expiringContext) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestUnresponsiveNode checks that a silent node and an unreachable one give different errors, each with its
// own hint.
func TestUnresponsiveNode(t *testing.T) {
	t.Parallel()
	ctx := expiringContext{t.Context(), make(chan struct{})}
	over := sync.OnceFunc(func() { close(ctx.done) })
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		over()
		<-r.Context().Done()
	}))
	t.Cleanup(node.Close)
	c := &client{base: node.URL, from: "--url", http: node.Client()}
	_, err := c.request(ctx, http.MethodGet, "/rules", nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "did not respond within 30s") || !strings.Contains(err.Error(), "/readyz") {
		t.Errorf("silent: %v", err)
	}
	node.Close()
	_, err = c.request(t.Context(), http.MethodGet, "/rules", nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot reach") || !strings.Contains(err.Error(), startHint) {
		t.Errorf("not there: %v", err)
	}
}
