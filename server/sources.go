package server

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/sources"
	"deadman/rules"
	"deadman/web"
)

// retireWithin bounds the time for the callers of a source that was replaced.
const retireWithin = time.Minute

// sourceFile is the operator's file of sources, with the sources that were read last.
type sourceFile struct {
	path     string // empty: none
	env      func(name string) string
	conn     *bus.Conn
	observer lookup.Observer
	log      *slog.Logger
	set      sourceSet
	specs    map[string]sources.Spec // of the sources in the set
	// changed makes rules use the sources of the set.
	changed func(context.Context) error
}

// openSources creates the sources of the operator's file.
func openSources(c Config, conn *bus.Conn, o lookup.Observer, log *slog.Logger) (*sourceFile, error) {
	f := &sourceFile{path: c.Sources, env: c.Env, conn: conn, observer: o, log: log, set: sourceSet{lookup.NewSet()}}
	if f.path == "" {
		return f, nil
	}
	_, err := f.replace()
	return f, err
}

// read reads the file again. Sources whose fields did not change keep their connections. If the file is invalid, all
// sources stay as they are.
func (f *sourceFile) read(ctx context.Context) error {
	gone, err := f.replace()
	if err != nil {
		return err
	}
	err = f.changed(ctx)
	for _, source := range gone {
		go source.Retire(retireWithin)
	}
	if err != nil {
		f.log.WarnContext(ctx, "the sources were read again, and rules use them once the rules can be read", "err", err)
	}
	return nil
}

// replace reads the file and replaces the sources that it changes. It returns those that are not in the set any more.
func (f *sourceFile) replace() (gone []*lookup.Source, err error) {
	known, err := sources.Load(f.path, f.env)
	if err != nil {
		return nil, fmt.Errorf("sources: %w (--sources names a file)", err)
	}
	var all, opened []*lookup.Source
	specs := make(map[string]sources.Spec, len(known))
	for _, spec := range known {
		specs[spec.Name] = spec
		if before, ok := f.set.Get(spec.Name); ok && reflect.DeepEqual(spec, f.specs[spec.Name]) {
			all = append(all, before)
			continue
		}
		client, err := sources.Open(spec, f.conn.NATS)
		if err != nil {
			lookup.NewSet(opened...).Close()
			return nil, fmt.Errorf("sources: %w (--sources names a file)", err)
		}
		source := newSource(spec, client, f.observer, f.log)
		all, opened = append(all, source), append(opened, source)
	}
	f.specs = specs
	return f.set.Replace(all...), nil
}

// OpenSources creates the sources of an operator's file to check rules against, without a node: sources over the
// node's own connection can't be queried. env resolves the environment variables named in the file. The caller must
// call letGo after use.
func OpenSources(file string, env func(name string) string) (known rules.Sources, letGo func(), err error) {
	specs, err := sources.Load(file, env)
	if err != nil {
		return nil, nil, err
	}
	var all []*lookup.Source
	for _, spec := range specs {
		client, err := sources.Open(spec, nil)
		if err != nil {
			lookup.NewSet(all...).Close()
			return nil, nil, err
		}
		all = append(all, newSource(spec, client, nil, slog.New(slog.DiscardHandler)))
	}
	set := sourceSet{lookup.NewSet(all...)}
	return set, set.Close, nil
}

// newSource returns the source of a client. It does not connect, so an unreachable source does not delay the start.
func newSource(spec sources.Spec, client lookup.Client, o lookup.Observer, log *slog.Logger) *lookup.Source {
	return lookup.NewSource(lookup.Options{
		Name: spec.Name, Kind: string(spec.Kind()), Client: client, Limits: spec.Limits, Most: spec.Most(), Now: time.Now, Observer: o, Log: log,
	})
}

// sourceSet provides the sources of a node to rules.
type sourceSet struct{ *lookup.Set }

var _ rules.Sources = sourceSet{}

// Source returns the source with the name.
func (s sourceSet) Source(name string) (rules.Source, bool) {
	source, ok := s.Get(name)
	return source, ok
}

// condition returns the condition of the sources, with the failing ones. A source that was not queried since the start of the node
// fails while an outage of it is open.
func (s sourceSet) condition(ctx context.Context, outages func(context.Context) ([]futurejobs.Outage, error)) []web.Condition {
	states := s.States()
	if len(states) == 0 {
		return nil
	}
	var open []futurejobs.Outage
	if slices.ContainsFunc(states, func(s lookup.State) bool { return s.Health == lookup.New }) {
		var err error
		if open, err = outages(ctx); err != nil {
			return []web.Condition{condition("sources", err, "", "the outages of the sources cannot be read")}
		}
	}
	var failing []string
	for _, state := range states {
		isOut := slices.ContainsFunc(open, func(o futurejobs.Outage) bool { return o.Source == state.Name })
		if !state.Health.Works() || state.Health == lookup.New && isOut {
			failing = append(failing, state.Name)
		}
	}
	detail := "no source is failing"
	if len(failing) > 0 {
		detail = "failing: " + strings.Join(failing, ", ") + "; checks that query them are retried"
	}
	return []web.Condition{{Name: "sources", OK: len(failing) == 0, Detail: detail}}
}
