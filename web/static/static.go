// Package static serves the assets of pages: the style, the scripts, and third-party code under vendor, as it was
// published. All of it is embedded in the program; pages load nothing from other hosts.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed *.css *.js vendor
var files embed.FS

// Prefix is the path under which Handler serves.
const Prefix = "/static/"

// asset is one file, ready to be served.
type asset struct {
	name   string // contains the hash of its content, so that browsers can cache it for ever
	kind   string
	plain  []byte
	zipped []byte
}

// Assets are the files, by their names.
type Assets struct {
	named  map[string]*asset // by the name in the folder
	served map[string]*asset // by the served name
}

// New returns the embedded files. The first call in a process compresses them.
func New() (*Assets, error) { return embedded() }

// embedded has the files for all nodes of the process: Assets do not change.
var embedded = sync.OnceValues(read)

func read() (*Assets, error) {
	all := &Assets{named: make(map[string]*asset), served: make(map[string]*asset)}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if kind := mime.TypeByExtension(path.Ext(name)); err == nil && !entry.IsDir() && kind != "" && isAsset(name) {
			err = all.add(name, kind)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("static files: %w", err)
	}
	return all, nil
}

// isAsset reports whether a file is for browsers; licences and checksums of vendor are not.
func isAsset(name string) bool {
	return strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css")
}

func (all *Assets) add(name, kind string) error {
	plain, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(plain); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	sum := sha256.Sum256(plain)
	ext := path.Ext(name)
	a := &asset{
		name: strings.TrimSuffix(path.Base(name), ext) + "-" + hex.EncodeToString(sum[:6]) + ext, kind: kind,
		plain: plain, zipped: zipped.Bytes(),
	}
	all.named[name], all.served[a.name] = a, a
	return nil
}

// Path returns the served path of a file in the folder; an unknown file is a programming error.
func (all *Assets) Path(name string) (string, error) {
	a := all.named[name]
	if a == nil {
		return "", fmt.Errorf("there is no static file %q", name)
	}
	return Prefix + a.name, nil
}

// ServeHTTP serves files under Prefix. A file's name changes with its content, so a browser never requests it twice.
func (all *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := all.served[strings.TrimPrefix(r.URL.Path, Prefix)]
	if a == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	_, _ = w.Write(body) // a browser that disconnected needs no file
}
