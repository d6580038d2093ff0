package server_test

import (
	"net/http"
	"strings"
	"testing"

	"deadman/internal/store/storetest"
	"deadman/server"
)

// A job is created, and the response is lost before it is stored, as if the node died. A repeated request with the
// same Idempotency-Key creates no second job, even after the job ended.
func TestIdempotentCreateAfterLostAnswer(t *testing.T) {
	t.Parallel()
	dsn, natsURL := storetest.Postgres(t), startNATS(t)
	rule := strings.Replace(shortRule, "{after: 1s,", "{after: 1h,", 1)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: natsURL, Rules: ruleFolder(t, map[string]string{"t.yaml": rule})})
	db := openDB(t, dsn)
	change := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	post := func() int {
		return n.callRaw(http.MethodPost, "/api/v1/jobs", `{"rule":"t-unconfirmed","key":"k"}`, "Idempotency-Key", "once", "Content-Type", "application/json").status
	}
	// No response is stored.
	change(`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the answer is lost'; END $$;
CREATE TRIGGER lose BEFORE UPDATE ON idempotency FOR EACH ROW WHEN (new.status IS NOT NULL) EXECUTE FUNCTION lose()`)
	if status := post(); status != http.StatusCreated {
		t.Fatalf("the first request is answered with %d", status)
	}
	change(`DROP TRIGGER lose ON idempotency; UPDATE idempotency SET at = at - interval '2 minutes'`)
	if status := n.call(http.MethodDelete, "/api/v1/jobs/t-unconfirmed?key=k", "", nil); status != http.StatusNoContent {
		t.Fatalf("cancelling is answered with %d", status)
	}
	for range 2 {
		if status := post(); status != http.StatusConflict {
			t.Errorf("the same request is answered with %d after its job ended", status)
		}
	}
	if pending, ended := queryCount(t, db, `SELECT count(*) FROM future_job`), queryCount(t, db, `SELECT count(*) FROM history`); pending != 0 || ended != 1 {
		t.Errorf("of one request %d jobs are pending and %d ended", pending, ended)
	}
}
