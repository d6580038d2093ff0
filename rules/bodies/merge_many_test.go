package bodies

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// patchOnce is a merge patch as in RFC 7396.
func patchOnce(known, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	fields, isObject := known.(map[string]any)
	if !isObject {
		fields = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(fields, name)
		} else {
			fields[name] = patchOnce(fields[name], change)
		}
	}
	return fields
}

// someValue returns a value with few names, so that patches overlap.
func someValue(random *rand.Rand, depth int) any {
	switch random.IntN(5) {
	case 0:
		return nil
	case 1:
		return strings.Repeat("<é\">", random.IntN(3))
	case 2:
		return []any{1.0, nil, map[string]any{"a": nil}}
	}
	o := map[string]any{}
	for range random.IntN(4) {
		if name := []string{"a", "b", "c&", "d\""}[random.IntN(4)]; depth > 0 {
			o[name] = someValue(random, depth-1)
		} else {
			o[name] = random.IntN(100)
		}
	}
	return o
}

// Many updates that are merged one after the other have the same result as each by itself, and the size of the state is
// that of its text.
func TestManyUpdatesMergeAsOneByOne(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 5))
		first := someValue(random, 3)
		text, err := json.MarshalIndent(first, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		m := NewMerging(text)
		for step := range 12 {
			patch, isObject := someValue(random, 3).(map[string]any)
			if !isObject {
				continue
			}
			body, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			want = patchOnce(want, patch)
			if err := m.Merge(body); err != nil {
				t.Fatal(err)
			}
			expected, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(m.Text(), &got); err != nil {
				t.Fatal(err)
			}
			actual, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(actual) != string(expected) || m.root.length() != len(m.Text()) {
				t.Fatalf("seed %d, update %d: got %s of %d bytes, size %d, want %s", seed, step, actual, len(m.Text()), m.root.length(), expected)
			}
		}
	}
}

// A refused update leaves the state unchanged, also if it is refused halfway.
func TestARefusedUpdateChangesNothing(t *testing.T) {
	m := NewMerging(json.RawMessage(`{"a":{"b":1,"c":2},"d":3}`))
	if err := m.Merge(json.RawMessage(`{"a":{"e":4}}`)); err != nil {
		t.Fatal(err)
	}
	before := string(m.Text())
	large := fmt.Sprintf(`{"a":{"b":null,"c":{"x":%q},"f":{"g":1}},"d":null,"h":[1]}`, strings.Repeat("x", MaxBytes))
	if err := m.Merge(json.RawMessage(large)); err == nil {
		t.Fatal("it was not refused")
	}
	if got := string(m.Text()); got != before || m.root.length() != len(got) {
		t.Errorf("it was %s and is %s, of %d bytes", before, got, m.root.length())
	}
	if err := m.Merge(json.RawMessage(`{"d":null}`)); err != nil || string(m.Text()) != `{"a":{"b":1,"c":2,"e":4}}` {
		t.Errorf("%s, %v", m.Text(), err)
	}
}

// BenchmarkUpdatesOfALargeState shows that thousands of small updates of a large state take about as long as a few: the
// state is not decoded for each.
func BenchmarkUpdatesOfALargeState(b *testing.B) {
	var large strings.Builder
	large.WriteString(`{"id":"hot"`)
	for i := 0; large.Len() < 240<<10; i++ {
		fmt.Fprintf(&large, `,"line_%d":{"sku":"A-%d","qty":%d}`, i, i, i%7)
	}
	large.WriteString(`}`)
	for b.Loop() {
		m := NewMerging(json.RawMessage(large.String()))
		for i := range 2000 {
			if err := m.Merge(fmt.Appendf(nil, `{"seen":%d}`, i)); err != nil {
				b.Fatal(err)
			}
		}
		m.Text()
	}
}
