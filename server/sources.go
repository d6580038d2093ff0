package server

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/bus"
	"deadman/internal/sources"
	"deadman/rules"
	"deadman/web"
)

// openSources creates the sources of the operator's file.
func openSources(c Config, conn *bus.Conn, o lookup.Observer, log *slog.Logger) (all sourceSet, err error) {
	known, err := readSources(c)
	if err == nil {
		all, err = newSourceSet(known, func(spec sources.Spec) (lookup.Client, error) { return sources.Open(spec, conn.NATS) }, o, log)
	}
	if err != nil {
		return all, fmt.Errorf("sources: %w (--sources names a file)", err)
	}
	return all, nil
}

// OpenSources creates the sources of an operator's file to check rules against, without a node: sources over the
// node's own connection can't be queried. env resolves the environment variables named in the file. The caller must
// call letGo after use.
func OpenSources(file string, env func(name string) string) (known rules.Sources, letGo func(), err error) {
	specs, err := sources.Load(file, env)
	if err != nil {
		return nil, nil, err
	}
	set, err := newSourceSet(specs, func(spec sources.Spec) (lookup.Client, error) { return sources.Open(spec, nil) }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	return set, set.Close, nil
}

// newSourceSet creates sources without connecting, so an unreachable source does not delay the start.
func newSourceSet(known []sources.Spec, open func(sources.Spec) (lookup.Client, error), o lookup.Observer, log *slog.Logger) (sourceSet, error) {
	var all []*lookup.Source
	for _, spec := range known {
		client, err := open(spec)
		if err != nil {
			lookup.NewSet(all...).Close()
			return sourceSet{}, err
		}
		all = append(all, lookup.NewSource(lookup.Options{
			Name: spec.Name, Kind: string(spec.Kind()), Client: client, Limits: spec.Limits, Most: spec.Most(), Now: time.Now, Observer: o, Log: log,
		}))
	}
	return sourceSet{lookup.NewSet(all...)}, nil
}

// readSources reads the configured sources file; without one it returns none.
func readSources(c Config) ([]sources.Spec, error) {
	if c.Sources == "" {
		return nil, nil
	}
	return sources.Load(c.Sources, c.Env)
}

// sourceSet provides the sources of a node to rules.
type sourceSet struct{ *lookup.Set }

var _ rules.Sources = sourceSet{}

// Source returns the source with the name.
func (s sourceSet) Source(name string) (rules.Source, bool) {
	source, ok := s.Get(name)
	return source, ok
}

// condition returns the condition of the sources, with the failing ones.
func (s sourceSet) condition() []web.Condition {
	states := s.States()
	if len(states) == 0 {
		return nil
	}
	var failing []string
	for _, state := range states {
		if !state.Health.Works() {
			failing = append(failing, state.Name)
		}
	}
	detail := "no source is failing"
	if len(failing) > 0 {
		detail = "failing: " + strings.Join(failing, ", ") + "; checks that query them are retried"
	}
	return []web.Condition{{Name: "sources", OK: len(failing) == 0, Detail: detail}}
}
