package rules

import (
	"bytes"
	"strings"
	"testing"

	"deadman/rules/document"
)

// resolvesOf returns resolves of words such as "a?c:x", an event with a condition and the members that x distinguishes.
func resolvesOf(text string) (all []document.Resolve) {
	for _, word := range strings.Fields(text) {
		event, distinct, _ := strings.Cut(word, ":")
		event, condition, _ := strings.Cut(event, "?")
		all = append(all, document.Resolve{Watch: document.Watch{Event: event, Key: "event.id", If: condition}, Distinct: distinct})
	}
	return all
}

// A set keeps its number through all versions that have it, and no other set gets it.
func TestNumberSets(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		want     []byte // of the last
	}{
		"no set":                           {[]string{"a b", "b a"}, nil},
		"the same":                         {[]string{"a:x b:y", "a:x b:y"}, []byte{0, 1, 2}},
		"other places":                     {[]string{"a:x b:y", "b:y a:x"}, []byte{1, 0, 2}},
		"other places, and back":           {[]string{"a:x b:y", "b:y a:x", "a:x b:y"}, []byte{0, 1, 2}},
		"a new one before":                 {[]string{"a:x b:y", "c:z a:x b:y"}, []byte{2, 0, 1, 3}},
		"one of the same members before":   {[]string{"a:x b:x", "c:x a:x b:x"}, []byte{2, 0, 1, 3}},
		"a resolve without a set before":   {[]string{"a:x", "b a:x"}, []byte{0, 0, 1}},
		"other members":                    {[]string{"a:x", "a:y"}, []byte{1, 2}},
		"other events of the same members": {[]string{"a:x b:y", "c:x b:y"}, []byte{0, 1, 2}},
		"removed, and another":             {[]string{"a:x b:y", "a:x", "a:x c:z"}, []byte{0, 2, 3}},
		"removed, and again":               {[]string{"a:x b:y", "a:x", "a:x b:y"}, []byte{0, 2, 3}},
		"two conditions, swapped":          {[]string{"a?c:x a?d:x", "a?d:x a?c:x"}, []byte{1, 0, 2}},
		"two conditions, one removed":      {[]string{"a?c:x a?d:x", "a?d:x"}, []byte{1, 2}},
		"another condition":                {[]string{"a?c:x", "a?d:x"}, []byte{0, 1}},
		"two alike":                        {[]string{"a:x a:x", "b:y a:x a:x"}, []byte{2, 0, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var sets memberSets
			for i := range c.versions[1:] {
				sets = numberSets(resolvesOf(c.versions[i]), sets, resolvesOf(c.versions[i+1]))
			}
			if !bytes.Equal(sets, c.want) {
				t.Errorf("the numbers are %v, want %v", sets, c.want)
			}
		})
	}
}
