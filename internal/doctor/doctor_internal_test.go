package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// An open transaction is a problem beyond its age.
func TestLongTransactions(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	for longest, want := range map[time.Duration]State{time.Nanosecond: Warning, time.Hour: OK} {
		i := &inspection{Config: server.Config{DatabaseURL: dsn}.WithDefaults(), now: time.Now, longest: longest}
		postgres(t.Context(), i, store.Schema{Applied: 1}, true)
		for _, f := range i.findings {
			if f.Check == "long transactions" && f.State != want {
				t.Errorf("longest %s: %+v", longest, f)
			}
		}
		if len(i.findings) < 8 {
			t.Errorf("%+v", i.findings)
		}
	}
}

// The limits of clocks and certificates.
func TestClocksAndCertificates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	i := &inspection{now: func() time.Time { return now }}
	for _, c := range []struct {
		ahead, rtt time.Duration
		want       State
	}{
		{time.Second, 0, OK}, {-time.Second, 0, OK}, {3 * time.Second, 0, Warning}, {-3 * time.Second, 0, Warning}, {3 * time.Second, 4 * time.Second, OK},
	} {
		i.skew("clock", "the database", now, now.Add(c.rtt/2+c.ahead), now.Add(c.rtt))
		if got := i.findings[len(i.findings)-1]; got.State != c.want {
			t.Errorf("%s ahead in %s: %+v", c.ahead, c.rtt, got)
		}
	}
	for left, want := range map[time.Duration]State{-time.Second: Failed, 24 * time.Hour: Warning, 31 * 24 * time.Hour: OK} {
		i.validity("certificate", "the certificate", now.Add(left))
		if got := i.findings[len(i.findings)-1]; got.State != want {
			t.Errorf("%s left: %+v", left, got)
		}
	}
}
