package web

import (
	"bytes"
	"encoding/json"
	"testing"
)

// BenchmarkBulkLine compares the line reader with encoding/json. The reader is kept while it takes at most half the time.
func BenchmarkBulkLine(b *testing.B) {
	line := []byte(`{"rule": "order-unshipped", "key": "order-1234567", "since": "2026-01-31T15:04:05Z", "event": ` +
		`{"id": "order-1234567", "total": 12.5, "customer": {"name": "Ada", "city": "Ulm"}, "items": [{"sku": "a", "count": 2}, {"sku": "b", "count": 1}]}}`)
	b.Run("lineReader", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			if _, err := readJobLine(&lineReader{lineFormat: &jobLines.lineFormat, text: line}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			var j JobRequest
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&j); err != nil {
				b.Fatal(err)
			}
		}
	})
}
