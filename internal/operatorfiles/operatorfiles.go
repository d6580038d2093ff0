// Package operatorfiles reads the files that an operator names: configurations, secrets and certificates.
package operatorfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxSize is the maximum size of a file in bytes: a bundle of CA certificates has up to 1 MB.
const maxSize = 4 << 20

// Read reads a file of up to 4 MiB.
func Read(path string) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes, the most for a file of the node", maxSize)}
	}
	return data, err
}

// CheckRegular returns an error if path is not a regular file. A named pipe would hold up its reader until another process
// writes to it.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file; name a file")}
	}
	return err
}
