package ui

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"time"

	"deadman/web"
)

// How often a page that is looked at is made again, and how long its stream may be silent.
const (
	liveEvery = 2 * time.Second
	liveBeat  = 20 * time.Second
)

// stream sends a page's content whenever it is another than before, as server-sent events, until
// the viewer leaves, their token ends or the node stops. The browser comes again by itself after an end.
// web.New bounds how many streams there are.
func (u *UI) stream(w http.ResponseWriter, r *http.Request, name string, see pageContext) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that buffers would hold the news back
	flow := http.NewResponseController(w)
	if err := flow.Flush(); err != nil { // a browser can let go only of what has begun
		return
	}
	left := web.Leaving(r.Context())
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var shown [sha256.Size]byte
	silent := time.Duration(0)
	for {
		part, err := u.part(r, name, see)
		if err != nil {
			return // the browser asks again, and is told why by the page
		}
		switch sum := sha256.Sum256(part); {
		case sum != shown:
			shown, silent = sum, 0
			part = event(part)
		case silent >= liveBeat:
			silent, part = 0, []byte(": still here\n\n")
		default:
			part = nil
		}
		if part != nil {
			_ = flow.SetWriteDeadline(time.Now().Add(liveBeat)) // a writer without deadlines is no server's
			if _, err := w.Write(part); err != nil {
				return
			}
			if err := flow.Flush(); err != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-left:
			return
		case <-tick.C:
			silent += liveEvery
		}
	}
}

// part is the content of a page without its layout. It is made like a page that is asked for, and few are made at a time; what
// is kept of it while it is sent is the text alone.
func (u *UI) part(r *http.Request, name string, see pageContext) ([]byte, error) {
	ctx, leave, err := web.BeginRead(r.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	r = r.WithContext(ctx)
	v, err := see(client{u.api, r}, r)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = u.templates[name+".html"].ExecuteTemplate(&out, "content", v.Body)
	return out.Bytes(), err
}

// event is a text as a server-sent event.
func event(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\r\n"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}
