package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"deadman/server"
)

// endpointsFile is the file in the data folder with the endpoints of the running embedded node.
const endpointsFile = "endpoints.json"

const nodeHint = "set --url or DEADMAN_URL"

// readEndpoints reads the endpoints that an embedded node wrote to its data folder, or zero without the file. The folder
// may be relative to the working directory, which may belong to another user. So the file must be writable by this user
// or root only, and may name only a node on this machine.
func readEndpoints(dir string) (at server.Endpoints, file string, err error) {
	file = filepath.Join(dir, endpointsFile)
	data, err := readOwn(dir, endpointsFile, 4<<10)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return at, file, nil
	case err != nil:
		return at, file, fmt.Errorf("%w (or %s)", err, nodeHint)
	}
	if err := json.Unmarshal(data, &at); err != nil {
		return at, file, fmt.Errorf("%s: %w (remove it, or %s)", file, err, nodeHint)
	}
	if at.HTTP != "" && !isOnLoopback(at.HTTP) {
		return at, file, fmt.Errorf("%s contains %s, but only a loopback address is accepted from this file; to use that node, %s", file, sanitize(at.HTTP), nodeHint)
	}
	return at, file, nil
}

// isOnLoopback reports whether an address is a bare URL of a host on loopback.
func isOnLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// readOwn reads a small file of a folder. Both must belong to this user or root, and be writable by the owner only.
func readOwn(dir, name string, limit int64) (data []byte, err error) {
	root, err := os.OpenRoot(dir) // a root stays the same folder even if its path is replaced
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := isOwn(root, f); err != nil {
		return nil, err
	}
	return readAtMost(f, f.Name(), limit)
}

func isOwn(root *os.Root, f *os.File) error {
	folder, err := root.Stat(".")
	if err != nil {
		return err
	}
	file, err := f.Stat()
	if err != nil {
		return err
	}
	return errors.Join(checkOwner(root.Name(), folder), checkOwner(f.Name(), file))
}

// readAtMost reads a file of at most most bytes.
func readAtMost(r io.Reader, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s exceeds the limit of %d KiB", path, limit>>10)
	}
	return data, err
}
