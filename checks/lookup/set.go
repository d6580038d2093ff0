package lookup

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Set is the sources of a node by their names. A nil Set has none.
type Set struct{ named map[string]*Source }

// NewSet returns the sources as a set.
func NewSet(all ...*Source) *Set {
	s := &Set{make(map[string]*Source, len(all))}
	for _, one := range all {
		s.named[one.Name] = one
	}
	return s
}

// Get returns the source of a name.
func (s *Set) Get(name string) (source *Source, ok bool) {
	if s == nil {
		return nil, false
	}
	source, ok = s.named[name]
	return source, ok
}

// Names are those of the sources, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.named))
}

// States are how the sources do, by name.
func (s *Set) States() []State {
	var states []State
	for _, name := range s.Names() {
		states = append(states, s.named[name].State())
	}
	return states
}

// closing is how long clients may take to let go of connections. One that holds on to an
// abandoned question would never.
const closing = time.Second

// Close lets go of connections. Nothing is asked any more when it is called.
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
	late := time.NewTimer(closing)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}
