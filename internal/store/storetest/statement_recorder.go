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

// StatementRecorder forwards connections to Postgres and records the text of each statement, in any form that a client
// sends it.
type StatementRecorder struct {
	from   net.Listener
	passed sync.WaitGroup

	mu   sync.Mutex
	sent map[string]bool
}

// NewWire returns a recorder that runs until the test ends.
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
			w.passed.Go(func() { w.proxy(tb, client, to) })
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

// Postgres returns the DSN of a new database with the present schema behind the recorder.
func (w *StatementRecorder) Postgres(tb testing.TB) string {
	tb.Helper()
	return w.before(tb, Postgres(tb))
}

// EmptyPostgres returns the DSN of a new database without tables behind the recorder.
func (w *StatementRecorder) EmptyPostgres(tb testing.TB) string {
	tb.Helper()
	return w.before(tb, EmptyPostgres(tb))
}

// before returns the DSN of a database behind the recorder. The connection is not encrypted.
func (w *StatementRecorder) before(tb testing.TB, dsn string) string {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = w.from.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// Sent returns the texts of the recorded statements, sorted.
func (w *StatementRecorder) Sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.sent))
}

// proxy forwards a connection until the client or the server closes it.
func (w *StatementRecorder) proxy(tb testing.TB, client net.Conn, to *pgx.ConnConfig) {
	defer client.Close()
	network, address := pgconn.NetworkAddress(to.Host, to.Port)
	server, err := net.Dial(network, address)
	if err != nil {
		tb.Errorf("wire: %v", err)
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, server) // either side may have closed the connection
		_ = client.Close()
	})
	w.record(bufio.NewReader(io.TeeReader(client, server)))
	_ = server.Close()
	answers.Wait()
}

// record reads a client's messages until it closes the connection: a first message without a type, and then messages
// with one, https://www.postgresql.org/docs/current/protocol-message-formats.html.
func (w *StatementRecorder) record(r io.Reader) {
	_, err := body(r)
	for err == nil {
		var kind [1]byte
		var output []byte
		if _, err = io.ReadFull(r, kind[:]); err == nil {
			output, err = body(r)
		}
		switch kind[0] {
		case 'P': // a name, a statement
			_, output, _ = bytes.Cut(output, []byte{0})
			w.add(output)
		case 'Q':
			w.add(output)
		}
	}
}

// body reads a message: its length, including that of the length itself, and the rest.
func body(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	text := make([]byte, max(binary.BigEndian.Uint32(length[:]), 4)-4)
	_, err := io.ReadFull(r, text)
	return text, err
}

// add records the statement at the start of a message.
func (w *StatementRecorder) add(output []byte) {
	text, _, ended := bytes.Cut(output, []byte{0})
	if !ended {
		return // the client closed the connection meanwhile
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[string(text)] = true
}
