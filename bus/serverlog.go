package bus

import (
	"fmt"
	"log/slog"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

var _ natsserver.Logger = (*serverLog)(nil)

// serverLog puts what the embedded server says into the node's own log. Its notices are of
// no interest to people who run one program.
type serverLog struct {
	log   *slog.Logger
	fatal chan string // the first thing that kept the server from starting
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(said(format, v)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn(said(format, v)) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Error(said(format, v)) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debug(said(format, v)) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debug(said(format, v)) }

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
