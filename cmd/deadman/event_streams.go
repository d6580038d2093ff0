package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) streamsCommand() *cobra.Command {
	return listing[web.Stream]{
		use: "streams", short: "List the streams that rules are told by, and how far they are read", path: "/streams",
		none:   "no rule is told by a stream",
		header: []string{"stream", "state", "last event", "behind", "lag", "jobs begun", "read by", "heard since", "problem", "rules"},
		row:    streamRow,
	}.command(p)
}

func streamRow(p *cli, s web.Stream) []cell {
	state := colouredCell(red, s.State)
	switch s.State {
	case web.StreamRead:
		state = colouredCell(green, s.State)
	case web.StreamBehind:
		state = colouredCell(yellow, s.State)
	}
	behind, lag := dimCell("not known"), dimCell("never read")
	if s.Behind != nil {
		behind = cellOf(strconv.FormatUint(*s.Behind, 10))
	}
	if s.Lag != nil {
		lag = cellOf(fmt.Sprintf("%.1f s", *s.Lag))
	}
	named := s.Rules[:min(len(s.Rules), 3)]
	rules := strings.Join(named, ", ")
	if more := s.RuleCount - len(named); more > 0 {
		rules += fmt.Sprintf(" and %d more", more)
	}
	return []cell{
		colouredCell(bold, s.Name), state, p.sometime(s.LastAt, "none yet"), behind, lag, sayNumber(s.Created),
		cellOf(s.ReadBy), p.sometime(s.HeardSince, "always"), cellOf(s.Problem), cellOf(rules),
	}
}
