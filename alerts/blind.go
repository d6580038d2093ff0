package alerts

import (
	"fmt"
	"strings"
	"time"
)

// mostNamed is how many rules a remark names.
const mostNamed = 10

// StreamLoss is the remark that events of a stream were not read: some or all of those that it took in
// after since, and before to. why says what happened to the stream.
func StreamLoss(stream string, since, to time.Time, why string) SystemAlert {
	since, to = since.UTC(), to.UTC()
	return SystemAlert{
		Topic: "stream/" + stream, Step: "blind", Status: Firing, Severity: Error, Since: since, Source: stream,
		Text: fmt.Sprintf("stream %s %s: events that it took in after %s and until %s may be missing; "+
			"check what happened in that time, and create, resolve or cancel jobs by hand (deadman job)",
			stream, why, since.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano)),
		Labels: map[string]string{"stream": stream},
	}
}

// Affecting is the remark with the names of the rules that it affects.
func (r SystemAlert) Affecting(rules []string) SystemAlert {
	if len(rules) == 0 {
		return r
	}
	named := strings.Join(rules[:min(len(rules), mostNamed)], ", ")
	if more := len(rules) - mostNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	r.Text += "; rules that read it: " + named
	return r
}
