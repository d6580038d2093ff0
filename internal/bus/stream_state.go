package bus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// electionTimeout is the shortest silence of a leader after which a NATS server starts an election.
const electionTimeout = 4 * time.Second

func createdAt(info *jetstream.StreamInfo) time.Time {
	return info.Created.UTC().Truncate(time.Microsecond)
}

// lastAt returns the time of the stream's last message, even if it was deleted. It is zero if the stream never had
// one.
func lastAt(info *jetstream.StreamInfo) time.Time {
	if info.State.LastSeq == 0 {
		return time.Time{}
	}
	return info.State.LastTime.UTC().Truncate(time.Microsecond)
}

// firstAt returns the time of the stream's first remaining message. It is zero if the stream is empty.
func firstAt(info *jetstream.StreamInfo) time.Time {
	if info.State.Msgs == 0 {
		return time.Time{}
	}
	return info.State.FirstTime.UTC().Truncate(time.Microsecond)
}

// leads reports whether the server that answered is certainly still the stream's leader.
//
// 1. A stream with a single copy has no group and no doubt.
// 2. A server lists the other copies. A server that lists the leader is not the leader.
// 3. A leader cut off from the other copies keeps answering with stale data for a while. They elect a new leader no
// earlier than electionTimeout after its last message.
func leads(c *jetstream.ClusterInfo) bool {
	if c == nil || c.RaftGroup == "" {
		return true
	}
	reachable := 1
	for _, p := range c.Replicas {
		if p.Name == c.Leader {
			return false
		}
		if !p.Offline && p.Active > 0 && p.Active < electionTimeout-time.Second {
			reachable++
		}
	}
	return c.Leader != "" && reachable > (len(c.Replicas)+1)/2
}

// ownsAll reports whether the stream takes in only the subjects that are read from it. In that case each lost message
// was an event.
func ownsAll(info *jetstream.StreamInfo, subjects []string) bool {
	cfg := info.Config
	if len(cfg.Subjects) == 0 || cfg.Mirror != nil || len(cfg.Sources) > 0 || cfg.SubjectTransform != nil {
		return false
	}
	return len(subjects) == 0 || !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return !covers(s, subjects) })
}

// thinned reports whether the stream mirrors a part of another stream under its sequences. Such a stream never had
// messages at the other sequences.
func thinned(info *jetstream.StreamInfo) bool {
	m := info.Config.Mirror
	return m != nil && (m.FilterSubject != "" || len(m.SubjectTransforms) > 0)
}

// LossRisk describes the settings of a stream that may delete single events before they are read. It is empty without
// such settings.
func LossRisk(c jetstream.StreamConfig) string {
	var risks []string
	if c.MaxMsgsPerSubject > 0 {
		risks = append(risks, fmt.Sprintf("keeps only the newest %d messages of a subject (max_msgs_per_subject)", c.MaxMsgsPerSubject))
	}
	if c.AllowRollup {
		risks = append(risks, "lets a message replace those before it (allow_rollup_hdrs)")
	}
	if c.AllowMsgTTL {
		risks = append(risks, "lets messages have an age of their own (allow_msg_ttl)")
	}
	if len(risks) == 0 {
		return ""
	}
	return strings.Join(risks, " and ")
}
