package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"deadman/internal/bus"
	"deadman/internal/store"
)

// Folder is the data folder of an embedded node.
type Folder struct {
	Dir string
	URL func() (string, error) // address of the running node's NATS server, with its user
	Log *slog.Logger           // of the NATS server of a stopped node
}

// open connects to the NATS server of the node on the folder, or starts a server on the streams of a stopped node. streams
// is nil for a folder without streams: the node uses another server. The caller calls done.
func (f Folder) open() (streams *bus.Snapshots, done func() error, err error) {
	lock, err := store.LockFolder(f.Dir)
	running := errors.Is(err, store.ErrLocked)
	if err != nil && !running {
		return nil, nil, err
	}
	unlock := func() error {
		if running {
			return nil
		}
		return lock.Close()
	}
	if _, err := os.Stat(filepath.Join(f.Dir, bus.StreamsDir)); errors.Is(err, fs.ErrNotExist) {
		return nil, unlock, nil
	}
	if running {
		b, err := f.dial()
		if err != nil {
			return nil, nil, err
		}
		return b.Snapshots, func() error { b.Close(); return nil }, nil
	}
	b, stop, err := serveStreams(f.Dir, f.Log)
	if err != nil {
		return nil, nil, errors.Join(err, unlock())
	}
	return b.Snapshots, func() error { stop(); return unlock() }, nil
}

// dial connects to the NATS server of the running node.
func (f Folder) dial() (*bus.Bus, error) {
	url, err := f.URL()
	if err != nil {
		return nil, fmt.Errorf("the NATS server of the running node: %w", err)
	}
	return bus.Dial(bus.Options{URL: url, Name: "deadman backup", Log: slog.New(slog.DiscardHandler)})
}

// serveStreams starts a NATS server on the streams of a folder, for this process alone. The caller calls stop.
func serveStreams(dir string, log *slog.Logger) (b *bus.Bus, stop func(), err error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	server, err := bus.StartServer(bus.ServerOptions{
		Dir: filepath.Join(dir, bus.StreamsDir), Addr: "127.0.0.1:0", Users: filepath.Join(dir, bus.UsersDir), Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	if b, err = bus.Dial(bus.Options{InProcess: server, Name: "deadman backup", Log: log}); err != nil {
		server.Close()
		return nil, nil, err
	}
	return b, func() { b.Close(); server.Close() }, nil
}
