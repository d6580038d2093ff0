package access

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"deadman/internal/subjects"
)

// TokenRequest describes a token to create.
type TokenRequest struct {
	Name    string        // 1 to 63 of letters, digits, '.', '_', '@' and '-'
	Scopes  []Scope       // at least one
	Prefix  string        // "acme-*" or "acme-": prefix of the allowed rules' names; empty: all
	Bounds  Bounds        // a nil list allows all, or with a prefix none
	Expires time.Duration // from now; 0: never
}

// Problem is one error of a request.
type Problem struct {
	Field   string `json:"field"`   // such as scopes[1]
	Message string `json:"message"` // the error and a remedy
}

// Problems lists all errors of a request. It implements error.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Field + ": " + p.Message
	}
	return strings.Join(lines, "\n")
}

var (
	nameFormat = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)
	prefixForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`) // of the prefix of a rule's name
)

// lookAlikes maps confusable characters of a name in lower case to one form. These characters look alike in some fonts
// (Unicode UTS #39 lists all except the separators and "uu"). A wide letter becomes its two narrow ones, so that "vvv" and
// "vw" have one form.
var lookAlikes = strings.NewReplacer(
	"0", "o", "1", "l", "i", "l", "2", "z", "5", "s", "8", "b",
	"d", "cl", "m", "rn", "w", "vv", "uu", "vv",
	"_", "-", ".", "-",
)

// separators matches the separators of a name that lookAlikes has mapped.
var separators = regexp.MustCompile(`-+`)

// skeleton returns the form that all names confusable with a name share. The number of separators does not count, nor
// do separators and "@" at either end.
func skeleton(name string) string {
	return strings.Trim(separators.ReplaceAllString(lookAlikes.Replace(strings.ToLower(name)), "-"), "-@")
}

// sixes maps 6 to b, which it looks like as 8 does. As 6 and 8 differ visibly, they never have one form: 8 is replaced by
// a character that no name has.
var sixes = strings.NewReplacer("6", "b", "8", "%")

// nameForm has two skeletons of a name. Confusable names share one.
type nameForm struct{ plain, sixes string }

func formOf(name string) nameForm { return nameForm{skeleton(name), skeleton(sixes.Replace(name))} }

func (f nameForm) isSimilar(to nameForm) bool { return f.plain == to.plain || f.sixes == to.sixes }

// areSimilar reports whether two names are confusable.
func areSimilar(a, b string) bool { return formOf(a).isSimilar(formOf(b)) }

// nameForms keeps the forms of the names of live tokens between checks. The zero value is empty.
type nameForms struct {
	mu    sync.Mutex
	forms map[string]nameForm // by name
}

// findSimilar returns a name, of those of live tokens, that is confusable with another one, or "".
func (c *nameForms) findSimilar(to string, live []string) (similar string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, forms := formOf(to), make(map[string]nameForm, len(live))
	for _, name := range live {
		form, known := c.forms[name]
		if !known {
			form = formOf(name)
		}
		forms[name] = form
		if name != to && form.isSimilar(own) {
			similar = name
		}
	}
	c.forms = forms
	return similar
}

// isReserved reports whether a name is confusable with one of an actor without a token, also by separators within:
// "dead.man".
func isReserved(name string) bool {
	joined := strings.NewReplacer("-", "", "_", "", ".", "", "@", "").Replace(name)
	return slices.ContainsFunc(reserved, func(other string) bool { return areSimilar(other, joined) })
}

// reserved are the audit log's names of actors without a token.
var reserved = []string{NodeItself, Loopback}

// read returns the normalized request, or Problems.
func (w TokenRequest) read() (TokenRequest, error) {
	var ps Problems
	report := func(field, format string, args ...any) {
		ps = append(ps, Problem{field, fmt.Sprintf(format, args...)})
	}
	w.readName(report)
	w.readRights(report)
	if w.Expires < 0 {
		report("expires", "%s is in the past; give a span such as 90d, or leave it out for a token that never expires", w.Expires)
	}
	if ps != nil {
		return TokenRequest{}, ps
	}
	return w, nil
}

// Granted returns a normalized request without a name, for a grant to a group, or Problems.
func (w TokenRequest) Granted() (TokenRequest, error) {
	var ps Problems
	w.readRights(func(field, format string, args ...any) {
		ps = append(ps, Problem{field, fmt.Sprintf(format, args...)})
	})
	if ps != nil {
		return TokenRequest{}, ps
	}
	return w, nil
}

func (w *TokenRequest) readRights(report problemList) {
	w.readScopes(report)
	w.readPrefix(report)
	w.readBounds(report)
}

// problemList records a problem of a field.
type problemList func(field, format string, args ...any)

func (w *TokenRequest) readName(report problemList) {
	switch {
	case !nameFormat.MatchString(w.Name):
		report("name", `%.70q is not 1 to 63 of letters, digits, ".", "_", "@" and "-", beginning with a letter or digit`, w.Name)
	case isReserved(w.Name):
		report("name", "the name %q is reserved for an actor of the audit log; take another name", w.Name)
	case uuid.Validate(w.Name) == nil:
		report("name", "%q looks like a token's id; take another name", w.Name)
	}
}

// readScopes sorts the scopes and removes duplicates.
func (w *TokenRequest) readScopes(report problemList) {
	if len(w.Scopes) == 0 {
		report("scopes", "there is none; give at least one of %s", choices())
	}
	for i, s := range w.Scopes {
		if slices.Contains(Scopes, s) {
			continue
		}
		hint := ""
		if m := suggestScope(string(s)); m != "" {
			hint = fmt.Sprintf("; did you mean %s?", m)
		}
		report(fmt.Sprintf("scopes[%d]", i), "%.40q is not one of %s%s", s, choices(), hint)
	}
	w.Scopes = slices.DeleteFunc(slices.Clone(Scopes), func(s Scope) bool { return !slices.Contains(w.Scopes, s) })
}

func (w *TokenRequest) readPrefix(report problemList) {
	if w.Prefix == "" {
		return
	}
	given := w.Prefix
	w.Prefix = strings.TrimSuffix(given, "*")
	switch {
	case w.Prefix == "":
		report("prefix", `"*" is all rules; leave the prefix out if the token is for all of them`)
	case !prefixForm.MatchString(w.Prefix):
		report("prefix", `%.70q is not how the name of a rule begins; write 1 to 63 of a-z, 0-9, "_" and "-", and a "*" after them if you like: "acme-*"`, given)
	}
}

// MaxBounds is the maximum number of entries in a list of bounds.
const MaxBounds = 100

// boundForm matches a name of a source or handler, or a prefix followed by "*".
var boundForm = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,62}\*?|\*)$`)

// readBounds normalizes each list: sorted, without duplicates.
func (w *TokenRequest) readBounds(report problemList) {
	if w.Prefix == "" && w.Bounds.given() && slices.Contains(w.Scopes, Admin) {
		report("scopes", "admin without a prefix may make tokens without bounds, so that bounds hold it nowhere; leave admin out, or the bounds")
	}
	b := &w.Bounds
	b.Token = ""
	b.Subjects = readList(report, "subjects", b.Subjects, subjects.Check)
	b.Publish = readList(report, "publish", b.Publish, subjects.Check)
	b.Sources = readList(report, "sources", b.Sources, checkBound)
	b.Handlers = readList(report, "handlers", b.Handlers, checkBound)
}

func checkBound(name string) error {
	if boundForm.MatchString(name) {
		return nil
	}
	return fmt.Errorf(`%.70q is not a name; write 1 to 63 of a-z, 0-9, "_" and "-", and a "*" after them for all that begin so`, name)
}

// readList normalizes a list of bounds; nil stays nil.
func readList[L ~[]string](report problemList, field string, list L, check func(string) error) L {
	if len(list) > MaxBounds {
		report(field, "there are %d, the most is %d; use wildcards", len(list), MaxBounds)
		return list
	}
	for i, one := range list {
		if err := check(one); err != nil {
			report(fmt.Sprintf("%s[%d]", field, i), "%v", err)
		}
	}
	list = slices.Clone(list) // nil for nil
	slices.Sort(list)
	return slices.Compact(list)
}

// choices returns the scopes as part of a sentence.
func choices() string {
	names := make([]string, len(Scopes))
	for i, s := range Scopes {
		names[i] = string(s)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
