package bus

import (
	"encoding/json"
	"errors"
	"testing"
)

// TestAnswersToBatch checks the interpretation of servers' answers to the last message of a batch of three.
func TestAnswersToBatch(t *testing.T) {
	for name, c := range map[string]struct {
		answer  string
		ok      bool
		refused bool // and the alerts may go one by one
	}{
		"taken in":             {`{"stream":"DEADMAN_ALERTS","seq":3,"batch":"b","count":3}`, true, false},
		"knows no batches":     {`{"stream":"DEADMAN_ALERTS","seq":3}`, false, true},
		"a part":               {`{"stream":"DEADMAN_ALERTS","seq":2,"batch":"b","count":2}`, false, true},
		"a repeat":             {`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"stream":"DEADMAN_ALERTS","seq":0}`, false, true},
		"a repeat in a window": {`{"error":{"code":400,"err_code":10201,"description":"atomic publish batch contains duplicate message id"}}`, false, true},
		"incomplete":           {`{"error":{"code":400,"err_code":10176,"description":"atomic publish batch is incomplete"}}`, false, true},
		"full":                 {`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`, false, true},
	} {
		var ack batchAck
		if err := json.Unmarshal([]byte(c.answer), &ack); err != nil {
			t.Fatal(err)
		}
		if err := ack.of(3); (err == nil) != c.ok || refused(err) != c.refused {
			t.Errorf("%s: %v, refused %v", name, err, refused(err))
		}
	}
	if refused(errors.New("no answer")) {
		t.Error("silence is no refusal")
	}
}
