package bus

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

var _ natsserver.Logger = (*serverLog)(nil)

// serverLog puts what the embedded server says into the node's own log. Its notices are of
// no interest to people who run one program.
type serverLog struct {
	log     *slog.Logger
	refused *refusals
	fatal   chan string // the first thing that kept the server from starting
	reads   sync.Once   // says that streams are read anew
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(said(format, v)) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debug(said(format, v)) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debug(said(format, v)) }

// What the server says of a client that cannot log in, which users.Check counts, and of one that is
// not permitted something.
var (
	unknownClient = regexp.MustCompile(` - authentication error($| - )`)
	trespass      = regexp.MustCompile(` - (Publish|Subscription) Violation`)
)

// Errorf leaves refused clients to what counts them: they come as often as they like.
func (l *serverLog) Errorf(format string, v ...any) {
	switch text := said(format, v); {
	case unknownClient.MatchString(text):
		l.log.Debug(text)
	case trespass.MatchString(text):
		l.refused.permission(text)
	default:
		l.log.Error(text)
	}
}

// Warnf keeps to itself what every end without notice brings along, but for one line.
func (l *serverLog) Warnf(format string, v ...any) {
	text := said(format, v)
	if !outdated(text) {
		l.log.Warn(text)
		return
	}
	l.log.Debug(text)
	l.reads.Do(func() {
		l.log.Info("the last stop was not a clean one; the streams are read anew from what is on disk, and nothing is lost")
	})
}

// outdated reports whether the server says that a stream's index is older than its messages,
// which it makes good by reading them.
func outdated(text string) bool {
	if !strings.HasPrefix(text, "nats: Filestore [") {
		return false
	}
	for _, sign := range []string{"prior state", "Stream state outdated", "state is outdated; attempting to recover"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Fatalf must not end the process: a program may embed it.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error(said(format, v))
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}

func said(format string, v []any) string {
	return "nats: " + strings.TrimSpace(fmt.Sprintf(format, v...))
}
