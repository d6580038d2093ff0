package sources_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/checks/lookup"
)

// makeBucket creates a bucket. Without direct it can be read entry by entry only.
func makeBucket(t *testing.T, conn *nats.Conn, name string, direct bool) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(shortContext(t), jetstream.KeyValueConfig{Bucket: name, Storage: jetstream.MemoryStorage, LimitMarkerTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(shortContext(t), "KV_"+name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	if cfg.AllowDirect = direct; !direct {
		if _, err := js.UpdateStream(shortContext(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	return kv
}

func put(t *testing.T, kv jetstream.KeyValue, key, value string) {
	t.Helper()
	if _, err := kv.PutString(shortContext(t), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestBucketsAreRead(t *testing.T) {
	for _, direct := range []bool{true, false} {
		t.Run(fmt.Sprintf("direct %t", direct), func(t *testing.T) {
			conn := natsConn(t, natsServer(t))
			kv := makeBucket(t, conn, "orders", direct)
			put(t, kv, "orders/1", `{"status":"OLD"}`)
			put(t, kv, "orders/1", `{"status":"OPEN"}`)
			put(t, kv, "a.b", `{}`)
			put(t, kv, "null", `null`)
			put(t, kv, "text", `OPEN`)
			put(t, kv, "large", `{"a":"`+strings.Repeat("x", lookup.MaxValue)+`"}`)
			put(t, kv, "deleted", `{}`)
			put(t, kv, "purged", `{}`)
			if err := errors.Join(kv.Delete(shortContext(t), "deleted"), kv.Purge(shortContext(t), "purged")); err != nil {
				t.Fatal(err)
			}
			var queries []lookup.KeyQuery
			for _, key := range []string{"orders/1", "a.b", "null", "text", "large", "deleted", "purged", "never", "a.*", "a b", "", "orders/1"} {
				queries = append(queries, lookup.KeyQuery{Key: key})
			}
			found, err := natsSource(t, conn).Query(shortContext(t), lookup.Question{KV: "orders"}, queries)
			if err != nil {
				t.Fatal(err)
			}
			checkLinesOf(t, found, `{"status":"OPEN"}`, `{}`, "absent", "bucket orders: the answer is not JSON", "larger than 64 KiB",
				"absent", "absent", "absent", `"a.*" is not a valid key of bucket orders`, `"a b" is not a valid key`, `"" is not a valid key`, `{"status":"OPEN"}`)
		})
	}
}

// Some thousand entries take a few round trips; more entries than the server returns at once are all read.
func TestBucketsAreReadManyAtTime(t *testing.T) {
	server := natsServer(t)
	conn := natsConn(t, server)
	kv := makeBucket(t, conn, "orders", true)
	const batch = lookup.BatchMost
	padding := strings.Repeat("x", 20_000) // in total more than the server returns at once
	var queries []lookup.KeyQuery
	var want []string
	for i := range batch {
		key := fmt.Sprintf("order-%d", i)
		queries = append(queries, lookup.KeyQuery{Key: key})
		if i%4 == 3 {
			want = append(want, "absent")
			continue
		}
		value := fmt.Sprintf(`{"n":%d,"padding":%q}`, i, padding)
		put(t, kv, key, value)
		want = append(want, value)
	}
	watched := natsConn(t, server)
	trips, err := watched.SubscribeSync("$JS.API.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := watched.Flush(); err != nil {
		t.Fatal(err)
	}
	found, err := natsSource(t, conn).Query(shortContext(t), lookup.Question{KV: "orders"}, queries)
	if err != nil {
		t.Fatal(err)
	}
	checkLinesOf(t, found, want...)
	if err := watched.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := trips.Pending(); err != nil || n < 2 || n > 6 {
		t.Errorf("%d round trips for %d entries: %v", n, batch, err)
	}
}

func TestMissingBucket(t *testing.T) {
	conn := natsConn(t, natsServer(t))
	makeBucket(t, conn, "orders", true)
	client := natsSource(t, conn)
	if _, err := client.Verify(shortContext(t), lookup.Question{KV: "orders"}, 0); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	for _, name := range []string{"order", "or.ders"} {
		q := lookup.Question{KV: name}
		if _, err := client.Verify(shortContext(t), q, 0); !errors.Is(err, lookup.ErrQuestion) || !strings.Contains(err.Error(), name) {
			t.Errorf("verify %s: %v", name, err)
		}
		// It is not a failure of the source, as other rules use other buckets.
		if _, err := client.Query(shortContext(t), q, []lookup.KeyQuery{{Key: "1"}}); !errors.Is(err, lookup.ErrQuestion) {
			t.Errorf("ask %s: %v", name, err)
		}
	}
}
