package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// stdStream names the standard input or output in place of a file.
const stdStream = "-"

// partialFile is a file that is written by a command. It has another name until it is complete.
type partialFile struct {
	io.Writer
	path string
	file *os.File // nil: the standard output
}

// createFile creates a file that does not exist, or returns the standard output for stdStream.
func createFile(out io.Writer, path string) (*partialFile, error) {
	if path == stdStream {
		if isTerminal(out) {
			return nil, usage("the standard output is a terminal; name a file")
		}
		return &partialFile{Writer: out}, nil
	}
	if _, err := os.Stat(path); err == nil {
		return nil, usage("%s exists; name another file", path)
	}
	if dir := filepath.Dir(path); !isFolder(dir) {
		return nil, usage("the folder %s of %s does not exist; create it, or name a file in another folder", dir, path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".partial-*") // in a shared folder another user may know any other name
	if err != nil {
		return nil, usage("%w", err)
	}
	return &partialFile{Writer: f, path: path, file: f}, nil
}

// folder returns the folder for temporary copies.
func (p *partialFile) folder() string {
	if p.file == nil {
		return os.TempDir()
	}
	return filepath.Dir(p.path)
}

// complete gives the file its name, and returns its size in bytes: 0 for the standard output. It replaces no file that was
// created meanwhile.
func (p *partialFile) complete() (int64, error) {
	if p.file == nil {
		return 0, nil
	}
	info, err := p.file.Stat()
	if err := errors.Join(err, p.file.Sync(), p.file.Close()); err != nil {
		return 0, err
	}
	if err := os.Link(p.file.Name(), p.path); errors.Is(err, fs.ErrExist) {
		return 0, err
	} else if err != nil { // the file system has no links
		return info.Size(), os.Rename(p.file.Name(), p.path)
	}
	return info.Size(), os.Remove(p.file.Name())
}

// discard removes the partial file.
func (p *partialFile) discard() {
	if p.file != nil {
		_ = p.file.Close()           // it is closed if it is complete
		_ = os.Remove(p.file.Name()) // it has been renamed if it is complete
	}
}
