package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"deadman/internal/bus"
	"deadman/internal/store"
)

// maxValue is the largest JSON entry, in bytes: the state of a stream lists its deleted messages.
const maxValue = 64 << 20

// restoredSuffix is part of the name of the database's folder until the restore is complete, so that no node starts with a part.
const restoredSuffix = ".restoring"

// users matches the names of the NATS server's users; others are temporary files.
var users = regexp.MustCompile(`^[a-z]+$`)

func isUser(name string) bool { return users.MatchString(name) }

// Restore creates the data folder of an archive: the database, the streams and the secrets of the NATS server's users.
// The folder must be missing or empty, otherwise the result is ErrNotEmpty. It is locked until it is complete, so that no node
// starts on a part. A file that is not a complete archive is ErrNotBackup, a file of a later version ErrFormat; after an error
// the folder is empty again. The first node that starts on the folder reports the restore by an alert.
func Restore(ctx context.Context, r io.Reader, dir string, log *slog.Logger) (h Header, c Contents, err error) {
	made, err := prepare(dir)
	if err != nil {
		return h, c, err
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		return h, c, err
	}
	files, err := os.ReadDir(dir)
	if err == nil && len(files) != 1 { // a node has started meanwhile, and stopped
		err = fmt.Errorf("%w: %s was used meanwhile", ErrNotEmpty, dir)
	}
	if err != nil {
		return h, c, errors.Join(err, lock.Close())
	}
	defer func() { err = release(dir, files[0].Name(), made, lock, err) }()
	u := &unpacker{dir: dir, log: log}
	err = u.unpack(ctx, r)
	if u.stop != nil {
		u.stop()
	}
	if err == nil {
		err = finisher{u}.finish(ctx)
	}
	if err == nil {
		err = u.placeDatabase()
	}
	if err != nil {
		return h, c, err
	}
	return u.header, u.contents, os.RemoveAll(u.databaseFolder())
}

// prepare creates a missing folder (made is true), and refuses a folder with files.
func prepare(dir string) (made bool, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, os.MkdirAll(dir, 0o700)
	}
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%w: %s has %s", ErrNotEmpty, dir, files[0].Name())
	}
	return false, err
}

// release unlocks the folder of a restore that ended with err. After an error it empties the folder, and removes a folder that
// the restore made.
func release(dir, lockName string, made bool, lock io.Closer, err error) error {
	if err == nil {
		return lock.Close()
	}
	files, reading := os.ReadDir(dir)
	err = errors.Join(err, reading)
	for _, f := range files {
		if f.Name() != lockName { // Windows removes no open file
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	err = errors.Join(err, lock.Close(), os.Remove(filepath.Join(dir, lockName)))
	if made {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

// unpacker restores one archive.
type unpacker struct {
	dir  string
	log  *slog.Logger
	only bool // the database alone: streams and secrets of the folder stay

	header   Header
	contents Contents
	saved    []bus.Snapshot // the streams of the archive
	stream   *bus.Snapshot  // the stream whose messages come next
	restored []string       // streams
	streams  *bus.Snapshots // nil: the server is not started
	stop     func()
}

// databaseFolder is the folder of the database until it is placed in the data folder.
func (u *unpacker) databaseFolder() string { return filepath.Join(u.dir, databaseEntry+restoredSuffix) }

func (u *unpacker) database() string { return filepath.Join(u.databaseFolder(), databaseEntry) }

// placeDatabase moves the complete database to its place in the data folder.
func (u *unpacker) placeDatabase() error {
	return os.Rename(u.database(), filepath.Join(u.dir, databaseEntry))
}

// unpack restores all entries, and reads on to the end: gzip has the sum of all bytes there.
func (u *unpacker) unpack(ctx context.Context, r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotBackup, err)
	}
	entries := tar.NewReader(z)
	done := false
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotBackup, err)
		}
		if done || e.Typeflag != tar.TypeReg {
			return fmt.Errorf("%w: unexpected entry %q", ErrNotBackup, e.Name)
		}
		if done, err = u.entry(ctx, e.Name, entryReader{entries}); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil {
		return fmt.Errorf("%w: %w", ErrNotBackup, err)
	}
	if !done {
		return fmt.Errorf("%w: it has no %s, so it was cut off", ErrNotBackup, contentsEntry)
	}
	return nil
}

// entryReader reads an entry of the archive. Its errors are ErrNotBackup, unlike those of the folder and the server.
type entryReader struct{ entry io.Reader }

// Read implements io.Reader.
func (r entryReader) Read(p []byte) (int, error) {
	n, err := r.entry.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrNotBackup, err)
	}
	return n, err
}

// entry restores one entry; last is true for the last one of an archive.
func (u *unpacker) entry(ctx context.Context, name string, r io.Reader) (last bool, err error) {
	if (name == headerEntry) != (u.header.Format == 0) {
		return false, fmt.Errorf("%w: its first entry is %q instead of %s", ErrNotBackup, name, headerEntry)
	}
	user, isSecret := strings.CutPrefix(name, usersFolder)
	ofStream, isStream := strings.CutPrefix(name, streamsFolder)
	switch {
	case name == headerEntry:
		return false, u.readHeader(r)
	case name == databaseEntry:
		if err := os.MkdirAll(u.databaseFolder(), 0o700); err != nil {
			return false, err
		}
		return false, write(u.database(), r)
	case isSecret && isUser(user):
		if u.only {
			return false, nil
		}
		return false, u.secret(user, r)
	case isStream && strings.HasSuffix(name, streamSuffix):
		u.stream = new(bus.Snapshot)
		return false, value(name, r, u.stream)
	case isStream && u.stream != nil && ofStream == u.stream.Name()+copySuffix:
		return false, u.restoreStream(ctx, r)
	case name == contentsEntry:
		return true, u.readContents(r)
	}
	return false, fmt.Errorf("%w: unexpected entry %q", ErrNotBackup, name)
}

func (u *unpacker) readHeader(r io.Reader) error {
	if err := value(headerEntry, r, &u.header); err != nil {
		return err
	}
	switch {
	case u.header.Format < 1:
		return fmt.Errorf("%w: %s has no format", ErrNotBackup, headerEntry)
	case u.header.Format > format:
		return fmt.Errorf("%w %d, written by deadman %s; this program reads up to format %d", ErrFormat, u.header.Format, u.header.Version, format)
	}
	return nil
}

// readContents compares the contents with the restored streams.
func (u *unpacker) readContents(r io.Reader) error {
	if err := value(contentsEntry, r, &u.contents); err != nil {
		return err
	}
	var names []string
	for _, s := range u.contents.Streams {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, u.restored) {
		return fmt.Errorf("%w: it names the streams %v, and has %v", ErrNotBackup, names, u.restored)
	}
	return nil
}

func (u *unpacker) secret(user string, r io.Reader) error {
	dir := filepath.Join(u.dir, bus.UsersDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return write(filepath.Join(dir, user), r)
}

func (u *unpacker) restoreStream(ctx context.Context, r io.Reader) error {
	name := u.stream.Name()
	if !u.only {
		if err := u.writeStream(ctx, r); err != nil {
			return err
		}
	}
	u.saved, u.restored, u.stream = append(u.saved, *u.stream), append(u.restored, name), nil
	return nil
}

func (u *unpacker) writeStream(ctx context.Context, r io.Reader) error {
	if u.streams == nil {
		b, stop, err := serveStreams(u.dir, u.log)
		if err != nil {
			return err
		}
		u.streams, u.stop = b.Snapshots, stop
	}
	return u.streams.Restore(ctx, *u.stream, r)
}

// write writes a file for this user alone.
func write(file string, r io.Reader) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err != nil {
		err = fmt.Errorf("%s: %w", filepath.Base(file), err)
	} else {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// value reads a JSON entry.
func value(name string, r io.Reader, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, maxValue))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotBackup, name, err)
	}
	return nil
}
