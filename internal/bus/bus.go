// Package bus connects deadman to NATS: the streams of events, the stream of alerts, and an embedded server for
// installations without one.
package bus

import "context"

// Bus is a connection to NATS with its parts, one for each use. All parts are safe for concurrent use.
type Bus struct {
	Conn     *Conn     // state of the connection
	Messages *Messages // messages that no stream stores

	Streams           *Streams           // reading of streams
	Binder            *Binder            // streams of subjects
	EventPublisher    *EventPublisher    // events
	TickPublisher     *TickPublisher     // events of schedules
	SchedulePublisher *SchedulePublisher // events of stored schedules
	EventsStream      *StreamOfEvents    // maintenance of DEADMAN_EVENTS

	AlertPublisher *AlertPublisher // alerts
	AlertReader    *AlertReader    // published alerts
	AlertsStream   *StreamOfAlerts // maintenance of DEADMAN_ALERTS

	Snapshots *Snapshots // copies of streams
	Eraser    *Eraser    // deletion of single messages
}

// Connect connects to the broker and ensures that DEADMAN_ALERTS exists. It returns ErrUnreachable if the broker or
// its JetStream is not ready yet, ErrURL for an invalid address, ErrIdentity for unusable files in Options.Identity,
// ErrUntrusted if no trusted encrypted connection is possible, and ErrDenied if the broker's user lacks a permission.
// An established connection reconnects forever, with the current content of the files.
func Connect(ctx context.Context, o Options) (*Bus, error) {
	b, err := Dial(o)
	if err != nil {
		return nil, err
	}
	if _, err := b.AlertsStream.ensure(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Dial connects to the broker without creating anything there. Its errors are those of Connect.
func Dial(o Options) (*Bus, error) {
	conn, err := dial(o)
	if err != nil {
		return nil, err
	}
	return newBus(conn), nil
}

// newBus assembles the parts over a connection.
func newBus(conn *Conn) *Bus {
	b := &Bus{Conn: conn, Messages: &Messages{conn}, Streams: &Streams{conn}, EventPublisher: &EventPublisher{conn}, EventsStream: &StreamOfEvents{conn: conn}, Snapshots: &Snapshots{conn}}
	b.Eraser = &Eraser{b.Streams}
	b.EventsStream.streams, b.EventsStream.replication = b.Streams, replication{conn}
	b.AlertsStream = &StreamOfAlerts{conn: conn, streams: b.Streams, replication: replication{conn}, events: b.EventsStream}
	b.Binder = &Binder{conn: conn, streams: b.Streams, events: b.EventsStream}
	b.TickPublisher = &TickPublisher{conn: conn, streams: b.Streams, binder: b.Binder, events: b.EventPublisher}
	b.SchedulePublisher = &SchedulePublisher{conn: conn, streams: b.Streams, events: b.EventPublisher, ticks: b.TickPublisher}
	b.AlertPublisher = &AlertPublisher{conn: conn, streams: b.Streams, stream: b.AlertsStream, encoder: alertEncoder{conn, b.AlertsStream}}
	b.AlertReader = &AlertReader{streams: b.Streams, log: conn.log}
	return b
}

// Close closes the connection. Pending requests fail.
func (b *Bus) Close() { b.Conn.nc.Close() }
