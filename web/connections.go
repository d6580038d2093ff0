package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Connections bounds the connections of a server. A bound of zero is no bound.
type Connections struct {
	Max        int            // at once
	MaxPerAddr int            // at once from one IPv4 address or one /64 of IPv6
	Proxies    []netip.Prefix // carry the connections of many clients: MaxPerAddr does not apply
	Log        *slog.Logger
}

const (
	// refusalsAtOnce is how many refused connections get an answer at once; the others are closed.
	refusalsAtOnce = 64
	// refusalTime is the deadline of that answer.
	refusalTime = time.Second
	// refusalAgain is the shortest time between two log messages about refusals.
	refusalAgain = time.Minute
)

// Bound returns a listener that refuses connections of ln beyond the bounds, with an answer that names the bound.
func (c Connections) Bound(ln net.Listener) net.Listener {
	return &boundListener{Listener: ln, Connections: c, from: make(map[netip.Addr]int), refusing: make(chan struct{}, refusalsAtOnce)}
}

type boundListener struct {
	net.Listener
	Connections
	refusing chan struct{}

	mu       sync.Mutex
	all      int
	from     map[netip.Addr]int // those with at least one
	loggedAt time.Time
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, proxy := l.sourceOf(conn)
		if p := l.admit(from, proxy); p != nil {
			l.refuse(conn, p)
			continue
		}
		return &boundConn{conn, sync.OnceFunc(func() { l.free(from) })}, nil
	}
}

// sourceOf returns the address or network that a connection counts for, invalid if it has none, and whether it is a
// proxy.
func (l *boundListener) sourceOf(conn net.Conn) (from netip.Addr, proxy bool) {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	from = plainAddr(tcp.AddrPort().Addr())
	proxy = inAny(l.Proxies, from)
	if network, err := from.Prefix(64); from.Is6() && err == nil {
		from = network.Addr()
	}
	return from, proxy
}

// admit counts a connection, or returns the reason to refuse it.
func (l *boundListener) admit(from netip.Addr, proxy bool) *Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.Max > 0 && l.all >= l.Max:
		return problem(http.StatusServiceUnavailable, "the node has %d connections, which is its limit; retry, or have --connections raised", l.all)
	case l.MaxPerAddr > 0 && l.from[from] >= l.MaxPerAddr && !proxy:
		return problem(http.StatusTooManyRequests, "%s has %d connections, which is the limit of one address; close some, or have --client-connections raised, "+
			"or the proxy named with --trusted-proxies", from, l.from[from])
	}
	l.all++
	l.from[from]++
	return nil
}

func (l *boundListener) free(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[from]--; l.from[from] == 0 {
		delete(l.from, from)
	}
}

// refuse closes a connection. It first sends the reason, unless refusalsAtOnce others are being sent theirs.
func (l *boundListener) refuse(conn net.Conn, p *Problem) {
	if l.toLog() {
		l.Log.Warn("connections are refused", "limit", p.Detail)
	}
	select {
	case l.refusing <- struct{}{}:
		go func() {
			defer func() { <-l.refusing }()
			answerAndClose(conn, p)
		}()
	default:
		_ = conn.Close() // nothing was promised to it
	}
}

func (l *boundListener) toLog() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.loggedAt) < refusalAgain {
		return false
	}
	l.loggedAt = now
	return true
}

// answerAndClose answers a connection with p and closes it. It reads the client's request, or the answer could be lost.
func answerAndClose(conn net.Conn, p *Problem) {
	defer func() { _ = conn.Close() }()
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	answer := http.Response{
		StatusCode: p.Status, ProtoMajor: 1, ProtoMinor: 1, Header: p.GetHeaders(), Close: true,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	answer.Header.Set("Content-Type", problemType)
	if conn.SetDeadline(time.Now().Add(refusalTime)) != nil || answer.Write(conn) != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, bodyLimit))
}

// boundConn is a connection that is counted until it is closed.
type boundConn struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite lets the server end an answer before the client has sent its whole request.
func (c *boundConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("%T closes as a whole alone", c.Conn)
	}
	return half.CloseWrite()
}
