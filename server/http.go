package server

import (
	"net"
	"net/http"

	"deadman/internal/bus"
	"deadman/internal/store"
	"deadman/web"
)

// errorStatuses maps errors to HTTP statuses.
var errorStatuses = []web.ErrorStatus{
	{Is: bus.ErrSubject, Status: http.StatusUnprocessableEntity},
	{Is: bus.ErrHeader, Status: http.StatusBadRequest},
	{Is: bus.ErrTooLarge, Status: http.StatusRequestEntityTooLarge},
	{Is: bus.ErrNoStream, Status: http.StatusConflict},
	{Is: bus.ErrDenied, Status: http.StatusServiceUnavailable, Remedy: "the broker does not let the node do that; its log names the permission that its NATS user lacks"},
	{Is: bus.ErrUnreachable, Status: http.StatusServiceUnavailable, Remedy: "the broker does not answer; try again, and look at /readyz"},
	{Is: store.ErrUnavailable, Status: http.StatusServiceUnavailable, Remedy: "the database does not answer; try again, and look at /readyz"},
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
