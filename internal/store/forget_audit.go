package store

import (
	"context"
	"database/sql"
	"strings"

	"deadman/internal/access"
)

// pseudonymize replaces the key in the audit log.
func (k forgottenKey) pseudonymize(ctx context.Context, tx *sql.Tx, f *Forgotten) error {
	like := "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(escape(k.key)) + "%"
	entries, err := query(ctx, tx, readEntry, auditEntries+` WHERE object LIKE $1 ESCAPE '!' OR detail LIKE $1 ESCAPE '!'`, like)
	if err != nil {
		return err
	}
	for _, e := range entries {
		object, detail, ok := k.renamed(e, f.Pseudonym)
		if !ok {
			continue
		}
		n, err := exec(ctx, tx, `UPDATE audit SET object = $1, detail = $2 WHERE id = $3`, escape(object), escape(detail), e.ID)
		if err != nil {
			return err
		}
		f.Audit += n
	}
	return nil
}

// renamed returns the object and detail of an audit entry about the key with the pseudonym in place of the key.
func (k forgottenKey) renamed(e access.AuditEntry, pseudonym string) (object, detail string, ok bool) {
	detail = replaceWord(e.Detail, k.key, pseudonym)
	for _, rule := range k.names {
		job := rule + "/" + k.key
		switch access.Action(e.Action) {
		case access.AlertAck, access.AlertUnack:
			if rest, is := strings.CutPrefix(e.Detail, job); is && (rest == "" || rest[0] == ';') {
				return e.Object, rule + "/" + pseudonym + replaceWord(rest, k.key, pseudonym), true
			}
		case access.PingCreate, access.PingRotate, access.PingDelete:
			if e.Object == "rule/"+rule && e.Detail == pingDetail(k.key) {
				return e.Object, pingDetail(pseudonym), true
			}
		}
		if e.Object == "job/"+job {
			return "job/" + rule + "/" + pseudonym, detail, true
		}
	}
	return e.Object, detail, e.Action == string(access.MuteCreate) && strings.Contains(e.Detail, "key="+k.key) && detail != e.Detail
}

// replaceWord replaces the occurrences of a word in a text that are not parts of longer words or numbers.
func replaceWord(text, word, with string) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		start, end := from+i, from+i+len(word)
		b.WriteString(text[from:start])
		if start > 0 && isOfWord(text[start-1]) || end < len(text) && isOfWord(text[end]) {
			b.WriteString(word)
		} else {
			b.WriteString(with)
		}
		from = end
	}
}

// isOfWord reports whether a byte continues a word, a number or a time.
func isOfWord(c byte) bool {
	return c == '-' || c == ':' || c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
