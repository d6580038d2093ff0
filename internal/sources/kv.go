package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"deadman/checks"
	"deadman/checks/lookup"
)

// bucket is a key-value bucket of JetStream.
type bucket struct {
	conn *nats.Conn
	name string
}

// entryKey matches the valid keys of JetStream.
var entryKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

// open opens the bucket. A missing bucket is an error of the question, because other rules use other buckets.
func (b bucket) open(ctx context.Context) (jetstream.KeyValue, error) {
	js, err := jetstream.New(b.conn)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, b.name)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrInvalidBucketName):
		return nil, fmt.Errorf("%w: bucket %s does not exist; create it with nats kv add, or correct the name", lookup.ErrQuestion, b.name)
	case err != nil:
		return nil, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	return kv, nil
}

// get reads the entries of the keys: up to a thousand per round trip if the server and the bucket support it (2.11,
// allow_direct), otherwise one by one, some concurrently.
func (b bucket) get(ctx context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	found := unknown(queries)
	wanted := make(map[string][]int, len(queries)) // indexes in queries, by key
	for i, query := range queries {
		if !entryKey.MatchString(query.Key) {
			found[i].Err = fmt.Errorf("%q is not a valid key of bucket %s; a key has letters, digits, / _ = - and single dots between them", clip(query.Key), b.name)
			continue
		}
		wanted[query.Key] = append(wanted[query.Key], i)
	}
	err := b.direct(ctx, wanted, found)
	if errors.Is(err, errNoDirect) {
		err = b.each(ctx, wanted, found)
	}
	return found, err
}

// each reads the entries one by one.
func (b bucket) each(ctx context.Context, wanted map[string][]int, found []checks.Finding) error {
	kv, err := b.open(ctx)
	if err != nil {
		return err
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(requestsMost)
	for key, of := range wanted {
		group.Go(func() error {
			entry, err := kv.Get(reading, key)
			switch {
			case errors.Is(err, jetstream.ErrKeyNotFound): // missing, deleted or purged
				b.setFinding(found, of, nil, nil)
			case err != nil:
				return fmt.Errorf("bucket %s: %w", b.name, err)
			default:
				value, err := decodeAnswer(entry.Value())
				b.setFinding(found, of, value, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// setFinding records the value or error of an entry for all its positions.
func (b bucket) setFinding(found []checks.Finding, of []int, value []byte, err error) {
	if err != nil {
		err = fmt.Errorf("bucket %s: %w", b.name, err)
	}
	for _, i := range of {
		found[i] = checks.Finding{Value: value, Err: err}
	}
}

// errNoDirect means that the bucket does not support reading many entries at once.
var errNoDirect = errors.New("the bucket does not support batched reads")

// The limits of one direct get. The server returns at most 1,024 subjects, and stops after directBytes; the remaining
// entries are requested again.
const (
	directMost  = 1000
	directBytes = 8 << 20
	noResults   = "No Results" // of a 404; any other description is a server error
)

// direct reads the entries in groups.
func (b bucket) direct(ctx context.Context, wanted map[string][]int, found []checks.Finding) error {
	room := int(b.conn.MaxPayload()) / 2 // for the keys of one request, escaped
	var keys []string
	size := 0
	flush := func() error {
		err := b.directSome(ctx, keys, wanted, found)
		keys, size = nil, 0
		return err
	}
	for key := range wanted {
		length := len(b.subject(key)) + len(`"",`)
		if len(keys) == directMost || size+length > room {
			if err := flush(); err != nil {
				return err
			}
		}
		keys, size = append(keys, key), size+length
	}
	if len(keys) == 0 {
		return nil
	}
	return flush()
}

// subject returns the subject of an entry.
func (b bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// directSome reads entries until each one is read or known to be missing.
func (b bucket) directSome(ctx context.Context, keys []string, wanted map[string][]int, found []checks.Finding) error {
	left := make(map[string]bool, len(keys))
	for _, key := range keys {
		left[key] = true
	}
	for {
		before := len(left)
		more, err := b.directOnce(ctx, left, func(key string, m *nats.Msg) {
			delete(left, key)
			value, err := entryOf(m)
			b.setFinding(found, wanted[key], value, err)
		})
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if len(left) == before {
			return fmt.Errorf("bucket %s: the server announces more entries and sends none", b.name)
		}
	}
	for key := range left { // all of them are missing
		b.setFinding(found, wanted[key], nil, nil)
	}
	return nil
}

// directOnce requests the entries of keys, and yields those received. more is true if the server omitted some.
func (b bucket) directOnce(ctx context.Context, keys map[string]bool, yield func(key string, m *nats.Msg)) (more bool, err error) {
	request := struct {
		Subjects []string `json:"multi_last"`
		MaxBytes int      `json:"max_bytes"`
	}{MaxBytes: directBytes}
	for key := range keys {
		request.Subjects = append(request.Subjects, b.subject(key))
	}
	text, err := json.Marshal(request)
	if err != nil {
		return false, err
	}
	answers, err := b.conn.SubscribeSync(b.conn.NewRespInbox())
	if err != nil {
		return false, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	defer func() { _ = answers.Unsubscribe() }() // after a lost connection, the server has already removed it
	if err := b.conn.PublishRequest("$JS.API.DIRECT.GET.KV_"+b.name, answers.Subject, text); err != nil {
		return false, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return false, errNoDirect // no bucket, no allow_direct, or no JetStream
		}
		if err != nil {
			return false, fmt.Errorf("bucket %s: no response in time; the server hangs, or the NATS user lacks the permission to publish on $JS.API.DIRECT.GET.KV_%s: %w", b.name, b.name, err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			key, is := strings.CutPrefix(m.Header.Get(jetstream.SubjectHeader), "$KV."+b.name+".")
			if !is || m.Header.Get("Nats-Num-Pending") == "" {
				return false, errNoDirect // the server does not support this request
			}
			yield(key, m)
		case "204": // end of the batch
			return m.Header.Get("Nats-Num-Pending") != "0", nil
		case "404":
			if m.Header.Get("Description") == noResults {
				return false, nil // all of them are missing
			}
			return false, fmt.Errorf("bucket %s: the server failed to read it: %s", b.name, clip(m.Header.Get("Description")))
		case "408": // from servers before 2.11
			return false, errNoDirect
		default:
			return false, fmt.Errorf("bucket %s: the server responded with %s: %s", b.name, status, clip(m.Header.Get("Description")))
		}
	}
}

// entryOf returns the value of an entry; nil: deleted, purged or expired.
func entryOf(m *nats.Msg) ([]byte, error) {
	switch m.Header.Get("KV-Operation") {
	case "DEL", "PURGE":
		return nil, nil
	}
	if m.Header.Get(jetstream.MarkerReasonHeader) != "" {
		return nil, nil
	}
	return decodeAnswer(m.Data)
}
