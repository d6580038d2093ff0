package ui

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"time"

	"deadman/web"
)

// Interval of rendering a live page, and longest silence of its stream.
const (
	liveEvery         = 2 * time.Second
	keepAliveInterval = 20 * time.Second
)

// stream sends a page's content as server-sent events whenever it changes. It ends when the viewer leaves, the token
// expires or the node stops, and the browser then reconnects. web.New bounds the number of streams.
func (u *UI) stream(w http.ResponseWriter, r *http.Request, name string, see pageContext) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a buffering proxy would delay events
	flow := http.NewResponseController(w)
	if err := flow.Flush(); err != nil { // browsers can only cancel a response that has begun
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
			return // the browser reconnects and gets the error page
		}
		switch sum := sha256.Sum256(part); {
		case sum != shown:
			shown, silent = sum, 0
			part = event(part)
		case silent >= keepAliveInterval:
			silent, part = 0, []byte(": still here\n\n")
		default:
			part = nil
		}
		if part != nil {
			_ = flow.SetWriteDeadline(time.Now().Add(keepAliveInterval)) // writers without deadlines occur outside servers only
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

// part renders a page's content without its layout. It counts as a read, so web.BeginRead bounds its concurrency.
// Only the text stays in memory while it is sent.
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
	err = u.templates[name+".html"].ExecuteTemplate(&out, "live", v)
	return out.Bytes(), err
}

// event formats a text as a server-sent event.
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
