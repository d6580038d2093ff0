package server

import (
	"net"
	"net/http"

	"deadman/internal/acklinks"
	"deadman/internal/bus"
	"deadman/internal/notify"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// errorStatuses maps errors to HTTP statuses.
var errorStatuses = []web.ErrorStatus{
	{Is: notify.ErrPress, Status: http.StatusBadRequest},
	{Is: bus.ErrSubject, Status: http.StatusUnprocessableEntity},
	{Is: bus.ErrHeader, Status: http.StatusBadRequest},
	{Is: bus.ErrTooLarge, Status: http.StatusRequestEntityTooLarge},
	{Is: bus.ErrNoStream, Status: http.StatusConflict},
	{Is: bus.ErrDenied, Status: http.StatusServiceUnavailable, Remedy: "the broker does not let the node do that; its log names the permission that its NATS user lacks"},
	{Is: bus.ErrUnreachable, Status: http.StatusServiceUnavailable, Remedy: "the broker does not answer; try again, and see /readyz"},
	{Is: store.ErrKeyInUse, Status: http.StatusConflict},
	{Is: store.ErrUnavailable, Status: http.StatusServiceUnavailable, Remedy: "the database does not answer; try again, and see /readyz"},
}

// wire is the broker as the HTTP API uses it.
type wire struct {
	*bus.EventPublisher
	*bus.AlertReader
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// handler returns the node's HTTP handler.
func (n *node) handler(addr net.Addr) http.Handler {
	streams := &streamReport{store: n.store, catalog: n.catalog, readers: n.intake.Status, streams: n.bus.Streams, conn: n.bus.Conn, now: n.clock.Now}
	links := &acklinks.Links{Store: n.store, Acks: n.acks, Uses: n.store, Enabled: n.notifications.hasAckLinks, Now: n.clock.Now, Zone: n.notifications.zone}
	return web.New(web.Options{
		Lists: n.store, Heartbeats: n.store, AlertsKept: n.KeepAlerts, Loads: n.store, JobActions: n.jobs, Schedules: &storedSchedules{n.store, rules.StoredCatalog{Catalog: n.catalog}, n.clock.Now}, Forgetter: &forgetter{n.store, n.catalog, n.bus.Streams, n.bus.Eraser, n.Namespace, forgetTime}, Retention: &retentionReader{n.store, n.retention()}, Acks: n.acks, AckLinks: links, Buttons: n.notifications.buttons(links), Letters: n.letters, Outbox: n.store, Catalog: n.catalog, Hooks: n.hooks.hook, Rules: n.rules, Calendars: n.calendars, Replays: n.replays, Wire: wire{n.bus.EventPublisher, n.bus.AlertReader}, Health: n.readiness.conditions, Metrics: n.metrics,
		Memory: n.store, Keeper: n.keeper, Logins: n.login.current.Load, Open: n.gate.allowsAnonymous, Proxied: n.Insecure, Mutes: n.store, Pings: n.pings, Quotas: n.quotas, Channels: n.notifications.channels(), Streams: streams, Sources: n.sources.set.Set,
		Handlers: n.handlerDirectory, Pages: n.pages, Schemas: servedSchemas(n.Schemas),
		Faults: errorStatuses, LoopbackOnly: isLoopback(addr), PublicURL: n.PublicURL, TrustedProxies: n.TrustedProxies, TokenRate: n.TokenRate, Version: n.Version, Log: n.part("http"), Now: n.clock.Now,
	})
}
