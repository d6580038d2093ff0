package bus

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"
)

const (
	ackSubjects = "deadman.acks.*" // of alerts' ids, without a namespace
	ackGroup    = "deadman"        // one node of the group replies
)

var semanticVersion = regexp.MustCompile(`^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

// Service is the node as a service of NATS: it acknowledges alerts, and answers the discovery of services (PING, INFO and
// STATS). The package micro would send its answers to any reply subject, also to one of events; Messages refuses those.
type Service struct {
	messages *Messages
	ack      func(ctx context.Context, subject string, body []byte) Reply
	identity micro.ServiceIdentity
	started  time.Time

	mu    sync.Mutex
	stats micro.EndpointStats // of the endpoint ack
}

// NewService returns the service of a node. ack acknowledges the alert with the id at the end of the subject.
func NewService(messages *Messages, node, version string, ack func(ctx context.Context, subject string, body []byte) Reply) *Service {
	namespace := messages.conn.opts.Namespace
	if version = strings.TrimPrefix(version, "v"); !semanticVersion.MatchString(version) {
		version = "0.0.0-dev" // clients refuse others
	}
	return &Service{
		messages: messages, ack: ack, started: time.Now().UTC(),
		identity: micro.ServiceIdentity{Name: namespace.Root(), ID: uuid.NewString(), Version: version, Metadata: map[string]string{"node": node}},
		stats:    micro.EndpointStats{Name: "ack", Subject: namespace.Subject(ackSubjects), QueueGroup: ackGroup},
	}
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.messages.Respond(ctx, s.stats.Subject, ackGroup, s.acknowledge) })
	for verb, state := range map[micro.Verb]func() any{micro.PingVerb: s.pong, micro.InfoVerb: s.info, micro.StatsVerb: s.statistics} {
		for _, of := range [][2]string{{}, {s.identity.Name}, {s.identity.Name, s.identity.ID}} {
			subject, err := micro.ControlSubject(verb, of[0], of[1])
			if err != nil {
				panic(err) // the verbs are known
			}
			group.Go(func() error {
				return s.messages.Respond(ctx, subject, "", func(context.Context, string, []byte) Reply {
					data, err := json.Marshal(state())
					if err != nil {
						panic(err) // text, numbers and times always marshal
					}
					return Reply{Data: data}
				})
			})
		}
	}
	return group.Wait()
}

// acknowledge answers a request, and counts it.
func (s *Service) acknowledge(ctx context.Context, subject string, body []byte) Reply {
	begun := time.Now()
	reply := s.ack(ctx, subject, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.NumRequests++
	s.stats.ProcessingTime += time.Since(begun)
	s.stats.AverageProcessingTime = s.stats.ProcessingTime / time.Duration(s.stats.NumRequests)
	if reply.Why != "" {
		s.stats.NumErrors++
		s.stats.LastError = reply.Why
	}
	return reply
}

func (s *Service) pong() any {
	return micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType}
}

func (s *Service) info() any {
	return micro.Info{
		ServiceIdentity: s.identity, Type: micro.InfoResponseType, Description: "deadman, which reports events that have not happened",
		Endpoints: []micro.EndpointInfo{{
			Name: s.stats.Name, Subject: s.stats.Subject, QueueGroup: ackGroup,
			Metadata: map[string]string{"description": "acknowledges the alert whose id ends the subject"},
		}},
	}
}

func (s *Service) statistics() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats // a copy: the answer is encoded without the lock
	return micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType, Started: s.started, Endpoints: []*micro.EndpointStats{&stats}}
}
