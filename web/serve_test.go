package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"deadman/web"
)

// testServer is a served handler that a test can block.
type testServer struct {
	url     string
	begun   chan struct{} // a request is running
	release chan struct{} // lets it continue
	stop    context.CancelFunc
	ended   chan error
}

func serve(t *testing.T, drain time.Duration) *testServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &testServer{"http://" + ln.Addr().String(), make(chan struct{}), make(chan struct{}), stop, make(chan error, 1)}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.begun <- struct{}{}
		select {
		case <-s.release:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	go func() { s.ended <- web.Serve(ctx, ln, h, drain) }()
	return s
}

func (s *testServer) get(t *testing.T) chan string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got := make(chan string, 1)
	go func() {
		answer, err := client.Get(s.url)
		if err != nil {
			got <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		got <- string(text)
	}()
	return got
}

func TestServeFinishesRunningRequests(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := serve(t, time.Minute)
	got := s.get(t)
	<-s.begun
	s.stop()
	for { // until the listener is closed
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	select {
	case err := <-s.ended:
		t.Fatalf("it left with a request in hand: %v", err)
	default:
	}
	close(s.release)
	if text := <-got; text != "done" {
		t.Errorf("the request in hand came to %q", text)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("a clean stop is an error: %v", err)
	}
}

func TestServeDrainTimeout(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := serve(t, 10*time.Millisecond)
	got := s.get(t)
	<-s.begun
	s.stop()
	if err := <-s.ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a drain that took too long ends with %v", err)
	}
	if text := <-got; text == "done" {
		t.Error("the request was not cut off")
	}
}

func TestServeOnFailingListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := web.Serve(t.Context(), ln, http.NotFoundHandler(), time.Second); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ends with %v", err)
	}
}
