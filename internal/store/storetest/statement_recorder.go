package storetest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// StatementRecorder passes connections on to Postgres and keeps the text of each statement that goes over it,
// whichever way a client sends it.
type StatementRecorder struct {
	from   net.Listener
	passed sync.WaitGroup

	mu   sync.Mutex
	sent map[string]bool
}

// NewWire returns a wire that is there until the test ends.
func NewWire(tb testing.TB) *StatementRecorder {
	tb.Helper()
	super, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	to, err := pgx.ParseConfig(super)
	if err != nil {
		tb.Fatal(err)
	}
	w := &StatementRecorder{sent: make(map[string]bool)}
	if w.from, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	w.passed.Go(func() {
		for {
			client, err := w.from.Accept()
			if err != nil {
				return // the test has ended
			}
			w.passed.Go(func() { w.pass(tb, client, to) })
		}
	})
	tb.Cleanup(func() {
		if err := w.from.Close(); err != nil {
			tb.Error(err)
		}
		w.passed.Wait()
	})
	return w
}

// Postgres is Postgres, over the wire. What goes over it is not encrypted.
func (w *StatementRecorder) Postgres(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(Postgres(tb))
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = w.from.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// Sent returns the texts of the statements that went over the wire so far, in order of the alphabet.
func (w *StatementRecorder) Sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.sent))
}

// pass returns when the client or the server has hung up.
func (w *StatementRecorder) pass(tb testing.TB, client net.Conn, to *pgx.ConnConfig) {
	defer client.Close()
	network, address := pgconn.NetworkAddress(to.Host, to.Port)
	server, err := net.Dial(network, address)
	if err != nil {
		tb.Errorf("wire: %v", err)
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, server) // who hung up, and how, is between them
		_ = client.Close()
	})
	w.listen(bufio.NewReader(io.TeeReader(client, server)))
	_ = server.Close()
	answers.Wait()
}

// listen reads what a client says until it hangs up: a first message without a type, and then
// messages with one, https://www.postgresql.org/docs/current/protocol-message-formats.html.
func (w *StatementRecorder) listen(r io.Reader) {
	_, err := body(r)
	for err == nil {
		var kind [1]byte
		var said []byte
		if _, err = io.ReadFull(r, kind[:]); err == nil {
			said, err = body(r)
		}
		switch kind[0] {
		case 'P': // a name, a statement
			_, said, _ = bytes.Cut(said, []byte{0})
			w.keep(said)
		case 'Q':
			w.keep(said)
		}
	}
}

// body reads the length of a message, which counts itself, and the rest of it.
func body(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	text := make([]byte, max(binary.BigEndian.Uint32(length[:]), 4)-4)
	_, err := io.ReadFull(r, text)
	return text, err
}

// keep keeps the statement that a message begins with.
func (w *StatementRecorder) keep(said []byte) {
	text, _, ended := bytes.Cut(said, []byte{0})
	if !ended {
		return // who said it hung up meanwhile
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[string(text)] = true
}
