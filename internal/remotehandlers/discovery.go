package remotehandlers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// Discovery is the subject on which services are asked who they are.
const Discovery = micro.APIPrefix + ".INFO"

// How long services have to say who they are.
const (
	findTime  = time.Second
	findQuiet = 250 * time.Millisecond // after somebody did
	findMost  = 4096
)

// Instances are the services that say that they answer under a name.
type Instances struct {
	Service   string   // what they call themselves; several: with commas
	Versions  []string // sorted
	Instances int
}

// Directory are the services that there are, by the name that they answer under; "*" are those that
// answer under any.
type Directory map[string]Instances

const anyName = "*"

// Of are the services that answer under a name.
func (r Directory) Of(name string) (f Instances, ok bool) {
	if f, ok = r[name]; !ok {
		f, ok = r[anyName]
	}
	return f, ok
}

// Names are those that services answer under, sorted.
func (r Directory) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(name string) bool { return name == anyName })
}

// Discover asks all services of NATS who they are, for up to a second, and returns those that answer
// as handlers, by the name of the handler. One that is a plain subscription does not say so. The
// errors are those of Wire.Gather.
func (s *Services) Discover(ctx context.Context) (Directory, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	answers, err := s.wire.RequestMany(ctx, Discovery, findMost, findQuiet)
	if err != nil {
		return nil, fmt.Errorf("find handlers: %w", err)
	}
	all := make(Directory)
	for _, m := range answers {
		var info micro.Info
		if json.Unmarshal(m.Data, &info) != nil || info.Type != micro.InfoResponseType {
			continue // whoever else answers there is no service
		}
		for _, name := range handlerNames(info) {
			all[name] = all[name].and(info)
		}
	}
	return all, nil
}

// handlerNames are the names of handlers that a service answers for.
func handlerNames(info micro.Info) []string {
	var names []string
	for _, endpoint := range info.Endpoints {
		name, is := strings.CutPrefix(endpoint.Subject, subjects)
		switch {
		case is && name == ">":
			names = append(names, anyName)
		case is && !strings.Contains(name, "."):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// and is f with one more instance.
func (f Instances) and(info micro.Info) Instances {
	switch {
	case f.Service == "":
		f.Service = info.Name
	case !slices.Contains(strings.Split(f.Service, ", "), info.Name):
		f.Service += ", " + info.Name
	}
	if at, there := slices.BinarySearch(f.Versions, info.Version); !there {
		f.Versions = slices.Insert(f.Versions, at, info.Version)
	}
	f.Instances++
	return f
}
