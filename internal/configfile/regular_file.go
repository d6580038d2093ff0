package configfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs" //nolint:depguard // the files of an operator are read here, in one way
	"os"    //nolint:depguard // as above
)

// maxFile is the maximum size in bytes of a file that an operator names: a bundle of CA certificates has up to 1 MB.
const maxFile = 4 << 20

// ReadFile reads a file that an operator names, of up to 4 MiB.
func ReadFile(path string) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes, the most for a file of the node", maxFile)}
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
