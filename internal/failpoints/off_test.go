//go:build !faultpoints

package failpoints

import "testing"

// Without the tag two places cost what nothing costs.
func BenchmarkHere(b *testing.B) {
	b.Run("places", func(b *testing.B) {
		for range b.N {
			Point("relay.published")
			if err := PointErr("relay.published"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("nothing", func(b *testing.B) {
		for range b.N {
		}
	})
}
