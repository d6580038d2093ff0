package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The first of consecutive failures and the recovery are logged, but no failure caused by the shutdown.
func TestRoundsLogTheFirstFailureAndTheRecovery(t *testing.T) {
	for name, atOnce := range map[string]bool{"at once": true, "at the first tick": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				fails := []bool{true, true, false, false, true, false, true}
				var done []time.Duration
				var said bytes.Buffer
				begun := time.Now()
				r := rounds{
					every: time.Minute, atOnce: atOnce, failed: "the moon cannot be read", works: "the moon is read", level: slog.LevelError,
					log: slog.New(slog.NewTextHandler(&said, nil)),
					do: func(context.Context) error {
						done = append(done, time.Since(begun))
						if len(done) == len(fails) {
							cancel()
						}
						if fails[len(done)-1] {
							return errors.New("it is cloudy")
						}
						return nil
					},
				}
				if err := r.Run(ctx); err != nil {
					t.Error(err)
				}
				first := time.Minute
				if atOnce {
					first = 0
				}
				for i, after := range done {
					if want := first + time.Duration(i)*time.Minute; after != want {
						t.Errorf("round %d is after %s, want %s", i, after, want)
					}
				}
				const failed, works = `level=ERROR msg="the moon cannot be read; trying again" again_in=1m0s err="it is cloudy"`, `level=INFO msg="the moon is read"`
				want := []string{failed, works, failed, works}
				if diff := cmp.Diff(want, regexp.MustCompile(`level=.*`).FindAllString(said.String(), -1)); diff != "" || len(done) != len(fails) {
					t.Errorf("%d rounds (-want +got):\n%s", len(done), diff)
				}
			})
		})
	}
}
