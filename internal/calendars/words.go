package calendars

import (
	"strings"

	"deadman/internal/configfile"
)

// readWords hands each word of a text such as "mon-fri, sun", or of a list of such texts, to
// read, whose error is what is wrong with it. like shows how one is written.
func readWords(v configfile.Value, like string, read func(word string) error) {
	for _, item := range v.OneOrList() {
		text, ok := item.RawText()
		if !ok {
			item.Problem("YAML reads %s here; write it in quotes, such as %q", item.Kind(), like)
			continue
		}
		for word := range strings.SplitSeq(text, ",") {
			if err := read(strings.TrimSpace(word)); err != nil {
				item.Problem("%s", err)
			}
		}
	}
}
