// Package backup copies the data of an embedded node into one file, also while the node runs, and restores it to an
// empty folder.
//
// The file is a gzip-compressed tar archive. Its entries, in this order:
//
//	backup.json            Header
//	deadman.db             the database, in its state of one moment
//	nats-users/USER        secrets of the embedded NATS server's users
//	streams/NAME.json      bus.Snapshot
//	streams/NAME.snapshot  the stream, in JetStream's format
//	contents.json          Contents; an archive without it was cut off
//
// The database is copied before the streams. So the streams are as new as the database or newer, and a restored node
// applies the events in between again.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"deadman/internal/bus"
	"deadman/internal/store"
)

// format is the version of the archive's form.
const format = 1

// Names of the entries, and the folders of the others.
const (
	headerEntry   = "backup.json"
	databaseEntry = store.DatabaseFile
	contentsEntry = "contents.json"
	usersFolder   = bus.UsersDir + "/"
	streamsFolder = "streams/"
	streamSuffix  = ".json"
	copySuffix    = ".snapshot"
)

var (
	// ErrNotBackup means that a file is no backup of deadman, or is damaged or cut off.
	ErrNotBackup = errors.New("no complete backup of deadman")
	// ErrFormat means that a later version of deadman wrote the backup.
	ErrFormat = errors.New("the backup has a newer format")
	// ErrNotEmpty means that the folder of a restore has files.
	ErrNotEmpty = errors.New("the folder is not empty")
)

// Header is the first entry of an archive.
type Header struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that wrote it
	At      time.Time `json:"at"`      // the database has all commits before
}

// Contents lists what an archive has.
type Contents struct {
	DatabaseBytes int64    `json:"database_bytes"`
	Streams       []Stream `json:"streams"`
	InMemory      []string `json:"streams_in_memory,omitempty"` // streams that are not in the archive
}

// Stream is a stream of an archive.
type Stream struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
}

// Messages returns the number of messages of all streams.
func (c Contents) Messages() (n uint64) {
	for _, s := range c.Streams {
		n += s.Messages
	}
	return n
}

// archive writes entries.
type archive struct {
	tar  *tar.Writer
	gzip *gzip.Writer
	at   time.Time // modification time of the entries
}

func newArchive(w io.Writer) *archive {
	z := gzip.NewWriter(w)
	return &archive{tar: tar.NewWriter(z), gzip: z}
}

func (a *archive) header(name string, size int64) error {
	return a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: a.at, Format: tar.FormatPAX})
}

// value adds a value as JSON.
func (a *archive) value(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := a.header(name, int64(len(data))); err != nil {
		return err
	}
	_, err = a.tar.Write(data)
	return err
}

// file adds an open file from its beginning.
func (a *archive) file(name string, f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if err := a.header(name, size); err != nil {
		return err
	}
	_, err = io.Copy(a.tar, f)
	return err
}

// close writes the end of the archive.
func (a *archive) close() error { return errors.Join(a.tar.Close(), a.gzip.Close()) }
