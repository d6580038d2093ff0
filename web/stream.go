package web

import (
	"context"
	"time"

	"deadman/internal/access"
)

// Stream is a stream with events of rules, as the API returns it.
type Stream struct {
	Name         string    `json:"name" doc:"Name of the stream." example:"DEADMAN_EVENTS"`
	Line         string    `json:"line" enum:"operator,tenants" doc:"Rules that the entry describes. Rules of tenants are read on a line of their own."`
	State        string    `json:"state" enum:"up_to_date,behind,failing,missing,unassigned" doc:"up_to_date: all messages are processed, or nearly. behind: messages are processed more slowly than they arrive, or after a backlog. failing: reading fails. missing: the stream does not exist. unassigned: no live node reads the stream."`
	Problem      string    `json:"problem,omitempty" doc:"Error and remedy, without secrets."`
	ReadBy       string    `json:"read_by,omitempty" doc:"Node that reads the stream." example:"shop-1/4711"`
	Rules        []string  `json:"rules" nullable:"false" doc:"First rules that subscribe to the stream, by name."`
	RuleCount    int       `json:"rule_count" doc:"Number of rules that subscribe to the stream."`
	Subjects     int       `json:"subjects" doc:"Number of subscribed subjects, including those of older versions."`
	LastSeq      uint64    `json:"last_seq" doc:"Sequence number of the last processed message."`
	LastAt       time.Time `json:"last_at,omitzero" doc:"Time at which the stream stored the last processed message. Absent if there was none."`
	EndSeq       uint64    `json:"end_seq,omitempty" doc:"Sequence number of the newest message in the stream. Absent if the NATS server did not answer."`
	EndAt        time.Time `json:"end_at,omitzero" doc:"Time at which the stream stored its newest message."`
	LagMessages  *uint64   `json:"lag_messages,omitempty" doc:"Number of messages to be processed. If another node reads the stream, messages that match no rule are included for up to 10 s. Absent if unknown."`
	Lag          *float64  `json:"lag_seconds,omitempty" doc:"Time since the stream was last read to its end, in seconds; up to 5 s more if another node reads the stream. Absent if it never was."`
	ReadUntil    time.Time `json:"read_until,omitzero" doc:"Messages stored before this time are processed. Jobs that depend on the stream are checked up to this time."`
	GapFreeSince time.Time `json:"gap_free_since,omitzero" doc:"Start of the current period without monitoring gaps. Absent if no gap matters."`
	StalledSince time.Time `json:"stalled_since,omitzero" doc:"Time since which reading makes no progress. A system alert reports it."`
	OverdueJobs  int       `json:"overdue_jobs,omitempty" doc:"Number of overdue jobs that wait for the stream, up to 10,000."`
	Created      int64     `json:"jobs_created" doc:"Number of jobs that events of the stream have created in total."`
}

// The lines of a stream.
const (
	LineOperator = "operator"
	LineTenants  = "tenants"
)

// StreamLine names a line of a stream.
type StreamLine struct{ Name, Line string }

// The states of a stream.
const (
	StreamUpToDate   = "up_to_date"
	StreamBehind     = "behind"
	StreamFailing    = "failing"
	StreamMissing    = "missing"
	StreamUnassigned = "unassigned"
)

// Streams reports the states of the streams.
type Streams interface {
	// Streams returns all lines of streams, sorted by name. While the broker does not answer, its data is left out. It is safe
	// for concurrent use.
	Streams(ctx context.Context) ([]Stream, error)
}

// streamAPI has the operation on streams.
type streamAPI struct {
	streams Streams // nil: the node reads none
}

func (a *streamAPI) register(all *operations) {
	register(all, operation{
		ID: "list-streams", Tag: tagNode, Method: "GET", Path: "/streams", Summary: "list the streams with rule subjects and their ingest lag",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
}

func (a *streamAPI) list(ctx context.Context, in *wholeListIn) (Page[Stream], error) {
	var all []Stream
	if a.streams != nil {
		var err error
		if all, err = a.streams.Streams(ctx); err != nil {
			return Page[Stream]{}, err
		}
	}
	return pageOfNamed(in, all, func(s Stream) string { return s.Name }), nil
}
