package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Sizes and timeouts of a transfer. A chunk is a message of its own, below the limit of every server.
const (
	snapshotChunk = 128 << 10        // bytes
	snapshotIdle  = 30 * time.Second // longest time without a chunk or an answer
)

// Snapshots copies streams, with their sequences, times and consumers, in the format of JetStream's snapshots.
type Snapshots struct{ conn *Conn }

// Snapshot describes a copied stream.
type Snapshot struct {
	Config json.RawMessage `json:"config"` // as the server sent it: a later server may have more fields
	State  json.RawMessage `json:"state"`
}

// Name returns the name of the stream, or an empty string for an invalid configuration.
func (s Snapshot) Name() string {
	var config struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(s.Config, &config) // the name stays empty
	return config.Name
}

// Messages returns the number of messages of the stream.
func (s Snapshot) Messages() (uint64, error) {
	state, err := s.state()
	return state.Msgs, err
}

// LastSeq returns the sequence of the last message.
func (s Snapshot) LastSeq() (uint64, error) {
	state, err := s.state()
	return state.LastSeq, err
}

func (s Snapshot) state() (state natsserver.StreamState, err error) {
	if err := json.Unmarshal(s.State, &state); err != nil {
		return state, fmt.Errorf("state of stream %s: %w", s.Name(), err)
	}
	return state, nil
}

// Streams returns the names of all streams: those in files, and those in memory, of which JetStream makes no snapshot.
func (s *Snapshots) Streams(ctx context.Context) (inFiles, inMemory []string, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	list := s.conn.js.ListStreams(ctx)
	for info := range list.Info() {
		if info.Config.Storage == jetstream.MemoryStorage {
			inMemory = append(inMemory, info.Config.Name)
		} else {
			inFiles = append(inFiles, info.Config.Name)
		}
	}
	if err := list.Err(); err != nil {
		return nil, nil, fmt.Errorf("streams: %w", err)
	}
	slices.Sort(inFiles)
	slices.Sort(inMemory)
	return inFiles, inMemory, nil
}

// Save writes a stream to w, after the server has checked the sums of its messages.
func (s *Snapshots) Save(ctx context.Context, name string, w io.Writer) (Snapshot, error) {
	chunks, err := s.conn.nc.SubscribeSync(s.conn.nc.NewInbox())
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of stream %s: %w", name, err)
	}
	defer func() { _ = chunks.Unsubscribe() }() // it fails only with the connection
	var made struct {
		natsserver.ApiResponse
		Snapshot
	}
	request := natsserver.JSApiStreamSnapshotRequest{DeliverSubject: chunks.Subject, ChunkSize: snapshotChunk, CheckMsgs: true}
	if err := s.call(ctx, fmt.Sprintf(natsserver.JSApiStreamSnapshotT, name), request, &made); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of stream %s: %w", name, err)
	}
	if made.Error != nil {
		return Snapshot{}, fmt.Errorf("snapshot of stream %s: %w", name, made.Error)
	}
	if err := s.receive(ctx, chunks, w); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of stream %s: %w", name, err)
	}
	return made.Snapshot, nil
}

// receive writes the chunks of a snapshot up to its end, a message without a body.
func (s *Snapshots) receive(ctx context.Context, chunks *nats.Subscription, w io.Writer) error {
	for {
		m, err := next(ctx, chunks)
		if err != nil {
			return err
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return fmt.Errorf("the server ended it: %s %s", status, m.Header.Get("Description"))
			}
			return nil
		}
		if _, err := w.Write(m.Data); err != nil {
			return err
		}
		if m.Reply == "" { // the last chunk
			continue
		}
		if err := m.Respond(nil); err != nil { // the server sends the next ones
			return err
		}
	}
}

// next waits for the next chunk.
func next(ctx context.Context, chunks *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotIdle)
	defer cancel()
	return chunks.NextMsgWithContext(ctx)
}

// Restore creates a stream from its snapshot, or fails if the stream exists.
func (s *Snapshots) Restore(ctx context.Context, of Snapshot, r io.Reader) error {
	if err := s.restore(ctx, of, r); err != nil {
		return fmt.Errorf("restore stream %s: %w", of.Name(), err)
	}
	return nil
}

func (s *Snapshots) restore(ctx context.Context, of Snapshot, r io.Reader) error {
	var begun natsserver.JSApiStreamRestoreResponse
	if err := s.call(ctx, fmt.Sprintf(natsserver.JSApiStreamRestoreT, of.Name()), of, &begun); err != nil {
		return err
	}
	if begun.Error != nil {
		return begun.Error
	}
	to := chunkWriter{func(chunk []byte) error { return s.send(ctx, begun.DeliverSubject, chunk) }}
	if _, err := io.CopyBuffer(to, struct{ io.Reader }{r}, make([]byte, snapshotChunk)); err != nil {
		return err
	}
	return s.send(ctx, begun.DeliverSubject, nil) // the end: the server answers once the stream exists
}

// chunkWriter sends each write as a chunk.
type chunkWriter struct{ send func(chunk []byte) error }

// Write implements io.Writer.
func (w chunkWriter) Write(chunk []byte) (int, error) {
	if err := w.send(chunk); err != nil {
		return 0, err
	}
	return len(chunk), nil
}

// send sends a chunk and waits for its answer, which is empty or has an error.
func (s *Snapshots) send(ctx context.Context, subject string, chunk []byte) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotIdle)
	defer cancel()
	answer, err := s.conn.nc.RequestWithContext(ctx, subject, chunk)
	if err != nil || len(answer.Data) == 0 {
		return err
	}
	var response natsserver.ApiResponse
	if err := json.Unmarshal(answer.Data, &response); err != nil {
		return fmt.Errorf("answer to a chunk: %w", err)
	}
	if response.Error != nil {
		return response.Error
	}
	return nil
}

// call sends a request to JetStream's API and decodes the response.
func (s *Snapshots) call(ctx context.Context, subject string, request, response any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotIdle)
	defer cancel()
	answer, err := s.conn.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer.Data, response)
}
