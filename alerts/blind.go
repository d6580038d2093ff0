package alerts

import (
	"fmt"
	"time"
)

// Blind is the remark that events of a stream may never have been seen: those that it took in
// after since, and before to. why says what happened to the stream.
func Blind(stream string, since, to time.Time, why string) Remark {
	since, to = since.UTC(), to.UTC()
	return Remark{
		Topic: "stream/" + stream, Step: "blind", Status: Firing, Severity: Error, Since: since, Source: stream,
		Text: fmt.Sprintf("stream %s %s: what it took in after %s and until %s was never seen, unless it was read by then; "+
			"find out what happened in that time, and begin, resolve or cancel by hand what was missed (deadman job)",
			stream, why, since.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano)),
	}
}
