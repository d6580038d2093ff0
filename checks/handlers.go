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

// ErrNoHandler means that nobody answers under the name that a rule gives.
var ErrNoHandler = errors.New("no handler of this name is registered")

// Handlers are handlers by the names that rules give them. The zero value has none. It is safe
// for concurrent use.
type Handlers struct {
	// Fallback answers under the names that nobody registered, as services elsewhere do; nil:
	// nobody does. Set before the first rule takes its handler.
	Fallback func(name string) Handler

	mu    sync.Mutex
	named map[string]Handler
	taken map[string]bool // without having been registered
	runs  bool            // a node has them
}

var handlerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Register makes a handler known under a name: 1 to 63 of a-z, 0-9, _ and -, beginning with a
// letter or digit. It has to come before the first rule takes the name, as before a node
// runs; a rule keeps the handler that it took.
func (h *Handlers) Register(name string, handler Handler) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !handlerName.MatchString(name):
		return fmt.Errorf("register handler %q: a name is 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", name)
	case handler == nil:
		return fmt.Errorf("register handler %s: there is no handler", name)
	case h.named[name] != nil:
		return fmt.Errorf("register handler %s: there is one of this name already", name)
	case h.runs:
		return fmt.Errorf("register handler %s: a node runs with the handlers already; register it before", name)
	case h.taken[name]:
		return fmt.Errorf("register handler %s: a rule has looked for it already; register it before the node runs", name)
	}
	if h.named == nil {
		h.named = make(map[string]Handler)
	}
	h.named[name] = handler
	return nil
}

// Lookup returns the handler of a name: the registered one, that of Fallback, or one by which
// nothing can be found out, for which it is an Outage of "handler/NAME". A nil h has none.
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

// With returns the handlers as a node has them: those that are registered by now, and where h
// has no Fallback of its own, that one. What is registered later no node would know, and is
// refused. A nil h has none.
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

// Registered are the names of the registered handlers, sorted. A nil h has none.
func (h *Handlers) Registered() []string {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.named))
}

// HandlerSource is what a handler is called as something that can't be asked.
func HandlerSource(name string) string { return "handler/" + name }

// unknown answers in the place of a handler that is not there.
func unknown(name string) Handler {
	return HandlerFunc(func(context.Context, Check) (Answer, error) {
		return Answer{}, &Outage{Source: HandlerSource(name), Err: ErrNoHandler}
	})
}

// AtMostOnce is a Handler with effects of its own. That a check of it begins is written down
// before it does. One that was begun and not decided, as after a crash, is not begun again: the
// job ends as undetermined, and that is said. An error is not tried again either; the next look
// is at the next slot, as another check.
type AtMostOnce interface {
	Handler
	// AtMostOnce says nothing; having it is what counts.
	AtMostOnce()
}

// WithAtMostOnce makes a Handler one with effects of its own.
func WithAtMostOnce(h Handler) AtMostOnce { return atMostOnce{h} }

type atMostOnce struct{ Handler }

func (atMostOnce) AtMostOnce() {}
