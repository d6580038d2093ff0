package pings

import (
	"net/url"
	"strings"
)

// Path is the path of a ping, apart from what all of them begin with.
type Path struct {
	ID   string   // of an address
	Rest []string // what follows it: a key, a signal
}

// ReadPath reads the path of a ping, still escaped: a key may hold a slash. A slash at its end
// says nothing. It returns ErrUnknown.
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

// maxPart is the longest key that a job can have, in bytes; nothing else in a path is longer.
const maxPart = 512
