package remotehandlers

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// Discovery is the subject of service discovery.
const Discovery = micro.APIPrefix + ".INFO"

// The timeouts of discovery.
const (
	findTime  = time.Second
	findQuiet = 250 * time.Millisecond // after the first answer
	findMost  = 4096
)

// Instances are the services that answer under a name.
type Instances struct {
	Service   string   // name of the service; several names: separated by commas
	Versions  []string // sorted
	Instances int
}

// Directory has the discovered services by handler name; "*" has those that answer under any name.
type Directory map[string]Instances

const anyName = "*"

// Of returns the services that answer under a name.
func (r Directory) Of(name string) (f Instances, ok bool) {
	if f, ok = r[name]; !ok {
		f, ok = r[anyName]
	}
	return f, ok
}

// Names returns the handler names with services, sorted.
func (r Directory) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(name string) bool { return name == anyName })
}

// handlerNames returns the handler names of a service, which follow a prefix in its subjects.
func handlerNames(info micro.Info, prefix string) []string {
	var names []string
	for _, endpoint := range info.Endpoints {
		name, is := strings.CutPrefix(endpoint.Subject, prefix)
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

// and returns f with one more instance.
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
