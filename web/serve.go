package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers on ln until ctx is done; then it accepts no new requests, ends the streams of alerts, and gives running
// requests the time drain. It closes ln. The error is nil after a clean stop.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, drain time.Duration) error {
	left := make(chan struct{})
	base := context.WithValue(context.WithoutCancel(ctx), leavingKey{}, (<-chan struct{})(left))
	s := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// No ReadTimeout and WriteTimeout, since they would cut streams: see bounded.
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()

	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	close(left)
	hurry, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.Shutdown(hurry); err != nil {
		return fmt.Errorf("drain HTTP: %w", errors.Join(err, s.Close()))
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// leavingKey is the context's key for the channel that Leaving returns.
type leavingKey struct{}

// Leaving returns a channel that is closed when the node begins to stop; nil outside of Serve.
func Leaving(ctx context.Context) <-chan struct{} {
	left, _ := ctx.Value(leavingKey{}).(<-chan struct{})
	return left
}
