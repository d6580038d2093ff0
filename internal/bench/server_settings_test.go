package bench_test

import (
	"strings"
	"testing"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// Advice recommends changes for bad settings only.
func TestAdvice(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		want    []string // the recommended settings, in order
	}{
		"as installed": {nil, []string{"wal_compression = ", "max_wal_size = ", "checkpoint_timeout = ", "shared_buffers to "}},
		"promises less": {
			[]string{"fsync=off", "full_page_writes=off", "synchronous_commit=off", "wal_compression=on", "max_wal_size=4GB", "checkpoint_timeout=15min", "shared_buffers=512MB"},
			[]string{"fsync = on", "full_page_writes = on", "synchronous_commit = on"},
		},
		"set well": {[]string{"wal_compression=on", "max_wal_size=8GB", "checkpoint_timeout=30min", "shared_buffers=1GB"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := storetest.StartCluster(storetest.Settings{Durable: true, Options: c.options})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := cluster.Stop(); err != nil {
					t.Error(err)
				}
			}()
			got, err := bench.Advice(t.Context(), cluster.DSN)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d lines, want %d: %q", len(got), len(c.want), got)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], "Set "+want) {
					t.Errorf("%q does not contain %q", got[i], want)
				}
			}
		})
	}
}
