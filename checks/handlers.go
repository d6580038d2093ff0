package checks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
)

// ErrNoHandler means that no handler is registered under the rule's handler name.
var ErrNoHandler = errors.New("no handler of this name is registered")

// Handlers is a registry of handlers by name. The zero value is empty. It is safe for concurrent use.
type Handlers struct {
	// Fallback returns the handler of a name that is not registered, such as a remote service. Set before the first
	// Lookup; nil: none.
	Fallback func(name string) Handler

	mu    sync.Mutex
	named map[string]Handler
	taken map[string]bool // looked up without being registered
	runs  bool            // used by a node
}

var handlerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Register registers a handler under a name: 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit. It must
// precede the first Lookup of the name and the start of a node, because a rule keeps its handler.
func (h *Handlers) Register(name string, handler Handler) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !handlerName.MatchString(name):
		return fmt.Errorf("register handler %q: a name is 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", name)
	case handler == nil:
		return fmt.Errorf("register handler %s: there is no handler", name)
	case h.named[name] != nil:
		return fmt.Errorf("register handler %s: the name is already registered", name)
	case h.runs:
		return fmt.Errorf("register handler %s: a node runs with the handlers already; register it before", name)
	case h.taken[name]:
		return fmt.Errorf("register handler %s: a rule uses the name already; register it before the node runs", name)
	}
	if h.named == nil {
		h.named = make(map[string]Handler)
	}
	h.named[name] = handler
	return nil
}

// Lookup returns the handler with the name: the registered one, that of Fallback, or one that fails with an Outage of
// "handler/NAME". A nil h is empty.
func (h *Handlers) Lookup(name string) Handler {
	if h == nil {
		return unknown(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if handler := h.named[name]; handler != nil {
		return handler
	}
	if h.taken == nil {
		h.taken = make(map[string]bool)
	}
	h.taken[name] = true
	if h.Fallback != nil {
		return h.Fallback(name)
	}
	return unknown(name)
}

// With returns a copy of the registered handlers for a node. Its fallback is h.Fallback if set, otherwise the given
// one. It freezes h: later calls of Register fail, as no node would see them. A nil h is empty.
func (h *Handlers) With(fallback func(name string) Handler) *Handlers {
	if h == nil {
		return &Handlers{Fallback: fallback}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = true
	if h.Fallback != nil {
		fallback = h.Fallback
	}
	return &Handlers{Fallback: fallback, named: maps.Clone(h.named)}
}

// Registered returns the names of the registered handlers, sorted. A nil h has none.
func (h *Handlers) Registered() []string {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.named))
}

// HandlerSource returns the name of a handler as the source of an Outage.
func HandlerSource(name string) string { return "handler/" + name }

// unknown returns a handler that always fails with ErrNoHandler.
func unknown(name string) Handler {
	return HandlerFunc(func(context.Context, Check) (Answer, error) {
		return Answer{}, &Outage{Source: HandlerSource(name), Err: ErrNoHandler}
	})
}

// AtMostOnce is a Handler with side effects. The start of a check is recorded before the handler is called. A check
// that was started and not decided, for example after a crash, is not started again: the job ends as undetermined and
// raises an alert. An error is not retried either; the next check is a new one at the next slot.
type AtMostOnce interface {
	Handler
	// AtMostOnce marks the handler. It is not called.
	AtMostOnce()
}

// WithAtMostOnce marks a Handler as having side effects.
func WithAtMostOnce(h Handler) AtMostOnce { return atMostOnce{h} }

type atMostOnce struct{ Handler }

func (atMostOnce) AtMostOnce() {}
