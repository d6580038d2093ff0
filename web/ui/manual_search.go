package ui

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"deadman/docs"
)

// manualSection is a heading of a page with the text below it, up to the next heading.
type manualSection struct{ Page, Title, At, Text string }

// manualHit is a section that a search finds.
type manualHit struct {
	manualSection
	Excerpt []excerptPart
	score   int
}

// excerptPart is a part of an excerpt. A match is marked.
type excerptPart struct {
	Text  string
	Match bool
}

// The limits of a search.
const (
	maxManualHits   = 40
	maxManualQuery  = 200 // bytes
	excerptBefore   = 60  // bytes before the first match
	excerptSize     = 240 // bytes
	maxCountedWords = 5
	minPartOfWord   = 3 // bytes of a word that is marked within others
)

// manualSections are the sections of all pages, except of decisions.
var manualSections = sync.OnceValues(readManualSections)

func readManualSections() (all []manualSection, err error) {
	err = fs.WalkDir(docs.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".md" || strings.HasPrefix(name, "adr/") {
			return err
		}
		content, err := fs.ReadFile(docs.Files, name)
		if err == nil {
			all = append(all, sectionsOf(name, content)...)
		}
		return err
	})
	return all, err
}

// sectionsOf returns the sections of a file.
func sectionsOf(name string, content []byte) (all []manualSection) {
	ctx := parser.NewContext(parser.WithIDs(make(anchors)))
	root := markdown.Parser().Parse(text.NewReader(content), parser.WithContext(ctx))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		plain := strings.Join(strings.Fields(plainText(n, content)), " ")
		if _, is := n.(*ast.Heading); !is {
			if len(all) > 0 {
				last := &all[len(all)-1]
				last.Text = strings.TrimSpace(last.Text + " " + plain)
			}
			continue
		}
		s := manualSection{Title: plain, At: manualPath(name)}
		if len(all) > 0 {
			id, _ := n.AttributeString("id")
			anchor, _ := id.([]byte)
			s.Page, s.At = all[0].Title, s.At+"#"+string(anchor)
		}
		all = append(all, s)
	}
	return all
}

// plainText returns the text of a node without marks.
func plainText(n ast.Node, content []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walker returns no error
		switch t := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(t.Segment.Value(content))
				if t.SoftLineBreak() || t.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
			return ast.WalkContinue, nil
		case *ast.AutoLink:
			if entering {
				b.Write(t.Label(content))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(content))
			}
		}
		if n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// searchManual returns the first sections that contain all words of a query in their text or their headings, and the number
// of all. Words in headings weigh more than those in the text.
func searchManual(query string) (hits []manualHit, total int, err error) {
	all, err := manualSections()
	if err != nil {
		return nil, 0, err
	}
	if len(query) > maxManualQuery {
		return nil, 0, nil
	}
	words := strings.Fields(strings.ToLower(query))
	for _, s := range all {
		if score := s.score(words); score > 0 {
			hits = append(hits, manualHit{manualSection: s, score: score})
		}
	}
	slices.SortStableFunc(hits, func(a, b manualHit) int { return cmp.Compare(b.score, a.score) })
	total = len(hits)
	hits = hits[:min(total, maxManualHits)]
	phrase, single := regexp.MustCompile(`(?i)`+regexp.QuoteMeta(strings.Join(words, " "))), matcher(words)
	for i, h := range hits {
		marks := single
		if phrase.MatchString(h.Text) {
			marks = phrase
		}
		hits[i].Excerpt = excerpt(h.Text, marks)
	}
	return hits, total, nil
}

// score returns the weight of the words in a section; 0: one of them is missing.
func (s manualSection) score(words []string) (score int) {
	phrase := " " + strings.Join(words, " ")
	title, page, body := " "+strings.ToLower(s.Title), " "+strings.ToLower(s.Page), " "+strings.ToLower(s.Text)
	for _, w := range words {
		found := 0
		for _, part := range []struct {
			text   string
			weight int
		}{{title, 20}, {page, 5}, {body, 1}} {
			if !strings.Contains(part.text, w) {
				continue
			}
			found += part.weight * (1 + min(strings.Count(part.text, " "+w), maxCountedWords)) // more at the beginning of a word
		}
		if found == 0 {
			return 0
		}
		score += found
	}
	if len(words) > 1 && strings.Contains(title, phrase) {
		score += 100
	}
	if len(words) > 1 && strings.Contains(body, phrase) {
		score += 20
	}
	return score
}

// matcher returns a pattern for any of the words; short ones count only as whole words.
func matcher(words []string) *regexp.Regexp {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = regexp.QuoteMeta(w); len(w) < minPartOfWord {
			quoted[i] = `\b` + quoted[i] + `\b`
		}
	}
	slices.SortStableFunc(quoted, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return regexp.MustCompile(`(?i)` + strings.Join(quoted, "|"))
}

// excerpt returns the part of a text around its first match, with all matches in it marked; without a match its beginning.
func excerpt(text string, marks *regexp.Regexp) (parts []excerptPart) {
	from := 0
	if first := marks.FindStringIndex(text); len(first) > 0 && first[0] > excerptBefore {
		from = first[0] - excerptBefore
		if space := strings.IndexByte(text[from:first[0]], ' '); space >= 0 {
			from += space + 1
		}
		for !utf8.RuneStart(text[from]) {
			from++
		}
	}
	until := min(len(text), from+excerptSize)
	if space := strings.LastIndexByte(text[from:until], ' '); until < len(text) && space > 0 {
		until = from + space
	}
	part := strings.ToValidUTF8(text[from:until], "")
	if from > 0 {
		parts = append(parts, excerptPart{Text: "… "})
	}
	end := 0
	for _, at := range marks.FindAllStringIndex(part, -1) {
		parts = append(parts, excerptPart{Text: part[end:at[0]]}, excerptPart{Text: part[at[0]:at[1]], Match: true})
		end = at[1]
	}
	parts = append(parts, excerptPart{Text: part[end:]})
	if until < len(text) {
		parts = append(parts, excerptPart{Text: " …"})
	}
	return slices.DeleteFunc(parts, func(p excerptPart) bool { return p.Text == "" })
}
