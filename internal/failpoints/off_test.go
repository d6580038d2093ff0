//go:build !faultpoints

package failpoints

import "testing"

// Without the build tag two places cost nothing.
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
