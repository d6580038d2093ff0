package main

import (
	"cmp"
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

// endpointsFile, in the data folder, says where the embedded node that works there can be reached.
const endpointsFile = "endpoints.json"

const nameHint = "name the node with --url or DEADMAN_URL"

// endpoints is what an embedded node wrote into its data folder; zero when it did not. The folder is looked for where
// the command is run, which may be a folder of anybody: what the file says counts only where no other user can have
// written it, and where it names a node on this machine.
func (p *cli) endpoints() (at server.Endpoints, file string, err error) {
	dir := cmp.Or(p.getenv("DEADMAN_DATA_DIR"), "deadman-data")
	file = filepath.Join(dir, endpointsFile)
	data, err := readOwn(dir, endpointsFile, 4<<10)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return at, file, nil
	case err != nil:
		return at, file, fmt.Errorf("%w (or %s)", err, nameHint)
	}
	if err := json.Unmarshal(data, &at); err != nil {
		return at, file, fmt.Errorf("%s: %w (remove it, or %s)", file, err, nameHint)
	}
	if at.HTTP != "" && !isOnLoopback(at.HTTP) {
		return at, file, fmt.Errorf("%s names %s, and of such a file only an address on loopback is taken; if the node is there, %s", file, sanitize(at.HTTP), nameHint)
	}
	return at, file, nil
}

// isOnLoopback reports whether an address is that of a node on this machine, and nothing more than that.
func isOnLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// readOwn reads a small file of a folder. Both have to be this user's, or root's, and nobody else may write to them.
func readOwn(dir, name string, most int64) (data []byte, err error) {
	root, err := os.OpenRoot(dir) // from here on it is the same folder, whatever is put in its place
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
	return readAtMost(f, f.Name(), most)
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

// readAtMost reads all of a small file.
func readAtMost(r io.Reader, path string, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is over the limit of %d KiB", path, most>>10)
	}
	return data, err
}
