package bodies

import (
	"errors"
	"testing"
	"time"
)

// A row that an operator changed by hand is an error of that check; it neither ends the node nor takes for ever.
func TestStoredBodyThatIsNotJSON(t *testing.T) {
	whole := `{"a":[1,{"b":"c\"d"},true,null,-1.5e3],"status":"OPEN","n":12}`
	bodies := []string{`x`, `[x]`, `{"a":x}`, `{x}`, `[1,,x`, `{"status"`, `"`, `\`, `{"a":}`, `[-]`}
	for i := range whole {
		bodies = append(bodies, whole[:i], whole[:i]+"x", whole[:i]+"x"+whole[i+1:])
	}
	for _, text := range bodies {
		for _, read := range []Part{{Whole: true}, {Fields: []string{"status"}}} {
			done := make(chan error, 1)
			go func() {
				_, err := Stored([]byte(text)).Value(false, read)
				done <- err
			}()
			select {
			case err := <-done:
				if text == "" && !errors.Is(err, errNoBody) {
					t.Errorf("no body: %v", err)
				}
			case <-time.After(2 * time.Minute):
				t.Fatalf("%q is read for ever", text)
			}
		}
	}
	if _, err := Stored([]byte(`[x]`)).Value(false, Part{Whole: true}); !errors.Is(err, errNotJSON) {
		t.Errorf("[x]: %v", err)
	}
}
