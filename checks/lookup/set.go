package lookup

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Set holds the sources of a node by name. A nil Set is empty. It is safe for concurrent use.
type Set struct {
	current atomic.Pointer[map[string]*Source]
}

// NewSet returns a set of the sources.
func NewSet(all ...*Source) *Set {
	s := new(Set)
	s.Replace(all...)
	return s
}

// Replace makes the set hold these sources, and returns those that it does not hold any more.
func (s *Set) Replace(all ...*Source) (gone []*Source) {
	named := make(map[string]*Source, len(all))
	for _, one := range all {
		named[one.Name] = one
	}
	if before := s.current.Swap(&named); before != nil {
		for name, one := range *before {
			if named[name] != one {
				gone = append(gone, one)
			}
		}
	}
	return gone
}

// named returns the sources by name.
func (s *Set) named() map[string]*Source {
	if s == nil {
		return nil
	}
	return *s.current.Load()
}

// Get returns the source with the name.
func (s *Set) Get(name string) (source *Source, ok bool) {
	source, ok = s.named()[name]
	return source, ok
}

// Names returns the names of the sources, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.named())) }

// States returns the states of the sources, sorted by name.
func (s *Set) States() []State {
	named := s.named()
	var states []State
	for _, name := range slices.Sorted(maps.Keys(named)) {
		states = append(states, named[name].State())
	}
	return states
}

// closing bounds the time for clients to close connections. A client stuck in an abandoned call would never return.
const closing = time.Second

// Close closes the connections of all sources. No calls may follow.
func (s *Set) Close() {
	var all sync.WaitGroup
	for _, source := range s.named() {
		all.Go(source.Client.Close)
	}
	closed := make(chan struct{})
	go func() {
		all.Wait()
		close(closed)
	}()
	timeout := time.NewTimer(closing)
	defer timeout.Stop()
	select {
	case <-closed:
	case <-timeout.C:
	}
}
