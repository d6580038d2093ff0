package pings

import (
	"net/url"
	"strings"
)

// Path is the path of a ping without Prefix.
type Path struct {
	ID   string   // of an address
	Rest []string // the following parts: a key, a signal
}

// ReadPath parses the escaped path of a ping. A key may contain an escaped slash; a trailing slash is ignored. It
// returns ErrUnknown.
func ReadPath(escaped string) (Path, error) {
	below, ok := strings.CutPrefix(escaped, Prefix)
	if !ok {
		return Path{}, ErrUnknown
	}
	parts := strings.Split(strings.TrimSuffix(below, "/"), "/")
	if len(parts) > 3 {
		return Path{}, ErrUnknown
	}
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil || plain == "" || len(plain) > maxPart {
			return Path{}, ErrUnknown
		}
		parts[i] = plain
	}
	p := Path{ID: parts[0], Rest: parts[1:]}
	if id, ok := readUUID(p.ID); ok {
		p.ID = id
	}
	return p, nil
}

// maxPart is the maximum length of a job's key in bytes. All other parts are shorter.
const maxPart = 512
