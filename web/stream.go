package web

import (
	"context"
	"time"

	"deadman/internal/access"
)

// Stream is a stream with events of rules, as the API returns it.
type Stream struct {
	Name        string    `json:"name" example:"DEADMAN_EVENTS"`
	State       string    `json:"state" enum:"read,behind,failing,gone,unread" doc:"read: to its end, or nearly. behind: more comes than is taken in, or a backlog is being read. failing: reading does not get on. gone: there is no such stream. unread: no live node is to read it."`
	Problem     string    `json:"problem,omitempty" doc:"What is wrong, and what to do; without secrets."`
	ReadBy      string    `json:"read_by,omitempty" doc:"The node that reads it." example:"shop-1/4711"`
	Rules       []string  `json:"rules" nullable:"false" doc:"The first of those that are told by it, by name."`
	RuleCount   int       `json:"rule_count" doc:"How many are."`
	Subjects    int       `json:"subjects" doc:"How many subjects of it they name, those of older versions included."`
	LastSeq     uint64    `json:"last_seq" doc:"Of the last message that was taken in or passed over."`
	LastAt      time.Time `json:"last_at,omitzero" doc:"When the stream took that one in; absent: there was none yet."`
	EndSeq      uint64    `json:"end_seq,omitempty" doc:"Of the stream's last message; absent: the broker did not say."`
	EndAt       time.Time `json:"end_at,omitzero" doc:"When the stream took that one in."`
	Behind      *uint64   `json:"behind,omitempty" doc:"Messages that are still to be looked at. Where another node reads the stream, those that no rule is told by count, too, for up to 10 s. Absent: not known."`
	Lag         *float64  `json:"lag_seconds,omitempty" doc:"Since when it was not read to its end; where another node reads it, up to 5 s more. Absent: it never was."`
	ReadThrough time.Time `json:"read_through,omitzero" doc:"All that came in before is taken in, as far as it was asked; jobs that wait for the stream are judged up to here."`
	HeardSince  time.Time `json:"heard_since,omitzero" doc:"Since when it is heard without a gap; absent: as far back as matters."`
	BlindSince  time.Time `json:"blind_since,omitzero" doc:"It stands still since then, which an alert of rule deadman says, too."`
	LateJobs    int       `json:"late_jobs,omitempty" doc:"Jobs that wait for it meanwhile though they are due, up to 10,000."`
	Created     int64     `json:"jobs_created" doc:"Jobs that its events began, ever."`
}

// The states of a stream.
const (
	StreamRead    = "read"
	StreamBehind  = "behind"
	StreamFailing = "failing"
	StreamGone    = "gone"
	StreamUnread  = "unread"
)

// Streams reports the states of the streams.
type Streams interface {
	// Streams returns all streams, sorted by name. While the broker does not answer, its data is left out. It is safe
	// for concurrent use.
	Streams(ctx context.Context) ([]Stream, error)
}

// streamAPI has the operation on streams.
type streamAPI struct {
	streams Streams // nil: the node reads none
}

func (a *streamAPI) register(all *operations) {
	register(all, operation{
		ID: "list-streams", Tag: tagNode, Method: "GET", Path: "/streams", Does: "lists the streams that rules are told by, and how far they are read",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
}

func (a *streamAPI) list(ctx context.Context, in *namedListIn) (Page[Stream], error) {
	var all []Stream
	if a.streams != nil {
		var err error
		if all, err = a.streams.Streams(ctx); err != nil {
			return Page[Stream]{}, err
		}
	}
	return pageOfNamed(in, all, func(s Stream) string { return s.Name }), nil
}
