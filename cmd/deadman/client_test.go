package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

// TestTailOfUnresponsiveNode checks that alert tail ends with an error if a node accepts its request and does not answer.
func TestTailOfUnresponsiveNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			own, node := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, node) }()
			return own, nil
		}}
		c := &client{base: "http://node", node: "http://node", from: "--url", http: &http.Client{Transport: transport}}
		var errs []string
		for a, err := range followAlerts(t.Context(), c, 0, func(err error) { t.Error(err) }) {
			if err == nil {
				t.Fatalf("an alert: %s", a.raw)
			}
			errs = append(errs, err.Error())
		}
		if want := "http://node (from --url) did not respond within 50s\ncheck /readyz and the log of the node"; strings.Join(errs, ", ") != want {
			t.Errorf("the errors are %q, want %q", errs, want)
		}
	})
}

// TestWaitForInputIsInterrupted checks that commands that wait for their standard input end with an interrupt.
func TestWaitForInputIsInterrupted(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"interrupted\n": {"rule", "lint", "-"},
		"interrupted\n0 events of the lines before were published\n":                         {"event", "send", "-f", "-", "--url", "http://127.0.0.1:9"},
		"restore -, nothing was restored: no complete backup of deadman: context canceled\n": {"restore", "-", "--data-dir", t.TempDir()},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			var out, problems bytes.Buffer
			ctx, interrupt := context.WithCancel(t.Context())
			input, writer := io.Pipe()
			defer writer.Close() // ends the read that is left behind
			go func() {
				_, _ = writer.Write([]byte("\n")) // until the command has read it, and waits for more
				interrupt()
			}()
			ended := make(chan int, 1)
			go func() { ended <- newCLI(input, &out, &problems, nil).run(ctx, args) }()
			select {
			case code := <-ended:
				if code != exitFailure || problems.String() != "deadman: "+want {
					t.Errorf("exit code %d: %s%s", code, &out, &problems)
				}
			case <-time.After(time.Minute):
				t.Fatal("the command does not end")
			}
		})
	}
}
