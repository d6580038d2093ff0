package lookup

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Set holds the sources of a node by name. A nil Set is empty.
type Set struct{ named map[string]*Source }

// NewSet returns a set of the sources.
func NewSet(all ...*Source) *Set {
	s := &Set{make(map[string]*Source, len(all))}
	for _, one := range all {
		s.named[one.Name] = one
	}
	return s
}

// Get returns the source with the name.
func (s *Set) Get(name string) (source *Source, ok bool) {
	if s == nil {
		return nil, false
	}
	source, ok = s.named[name]
	return source, ok
}

// Names returns the names of the sources, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.named))
}

// States returns the states of the sources, sorted by name.
func (s *Set) States() []State {
	var states []State
	for _, name := range s.Names() {
		states = append(states, s.named[name].State())
	}
	return states
}

// closing bounds the time for clients to close connections. A client stuck in an abandoned call would never return.
const closing = time.Second

// Close closes the connections of all sources. No calls may follow.
func (s *Set) Close() {
	if s == nil {
		return
	}
	var all sync.WaitGroup
	for _, source := range s.named {
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
