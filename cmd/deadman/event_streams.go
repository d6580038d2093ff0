package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *program) streamsCommand() *cobra.Command {
	return listing[web.Stream]{
		use: "streams", short: "List the streams that rules are told by, and how far they are read", path: "/streams",
		none:   "no rule is told by a stream",
		header: []string{"stream", "state", "last event", "behind", "lag", "jobs begun", "read by", "heard since", "problem", "rules"},
		row:    streamRow,
	}.command(p)
}

func streamRow(p *program, s web.Stream) []cell {
	state := sayIn(red, s.State)
	switch s.State {
	case web.StreamRead:
		state = sayIn(green, s.State)
	case web.StreamBehind:
		state = sayIn(yellow, s.State)
	}
	behind, lag := faint("not known"), faint("never read")
	if s.Behind != nil {
		behind = say(strconv.FormatUint(*s.Behind, 10))
	}
	if s.Lag != nil {
		lag = say(fmt.Sprintf("%.1f s", *s.Lag))
	}
	named := s.Rules[:min(len(s.Rules), 3)]
	rules := strings.Join(named, ", ")
	if more := s.RuleCount - len(named); more > 0 {
		rules += fmt.Sprintf(" and %d more", more)
	}
	return []cell{
		sayIn(bold, s.Name), state, p.sometime(s.LastAt, "none yet"), behind, lag, sayNumber(s.Created),
		say(s.ReadBy), p.sometime(s.HeardSince, "always"), say(s.Problem), say(rules),
	}
}
