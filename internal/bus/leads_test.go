package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestLeads(t *testing.T) {
	received := func(name string) *jetstream.PeerInfo { return &jetstream.PeerInfo{Name: name, Active: time.Second} }
	quiet := func(name string) *jetstream.PeerInfo {
		return &jetstream.PeerInfo{Name: name, Active: 5 * time.Second}
	}
	gone := func(name string) *jetstream.PeerInfo {
		return &jetstream.PeerInfo{Name: name, Active: time.Second, Offline: true}
	}
	never := func(name string) *jetstream.PeerInfo { return &jetstream.PeerInfo{Name: name} }
	type peers = []*jetstream.PeerInfo
	group := func(leader string, p peers) *jetstream.ClusterInfo {
		return &jetstream.ClusterInfo{RaftGroup: "S-R3F", Leader: leader, Replicas: p}
	}
	for name, c := range map[string]struct {
		answer *jetstream.ClusterInfo
		want   bool
	}{
		"no cluster":            {nil, true},
		"one copy":              {&jetstream.ClusterInfo{Leader: "a"}, true},
		"all replicas answered": {group("a", peers{received("b"), received("c")}), true},
		"one is away":           {group("a", peers{received("b"), gone("c")}), true},
		"one is quiet":          {group("a", peers{quiet("b"), received("c")}), true},
		"cut off":               {group("a", peers{quiet("b"), quiet("c")}), false},
		"alone":                 {group("a", peers{gone("b"), gone("c")}), false},
		"just begun":            {group("a", peers{never("b"), never("c")}), false},
		"no leader":             {group("", peers{received("a"), received("b"), received("c")}), false},
		"a follower":            {group("b", peers{received("b"), received("c")}), false},
		"five, two of them":     {group("a", peers{received("b"), quiet("c"), quiet("d"), gone("e")}), false},
		"five, three of them":   {group("a", peers{received("b"), received("c"), quiet("d"), gone("e")}), true},
		"a group of one":        {group("a", nil), true},
		"of two, the other is":  {group("a", peers{gone("b")}), false},
	} {
		if got := leads(c.answer); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
