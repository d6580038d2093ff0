package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/badges"
	"deadman/rules"
)

// Badge is the address of a badge, as the API returns it.
type Badge struct {
	Key       string `json:"key,omitempty" doc:"Key of the badge. Absent for a badge of the whole rule." example:"crm"`
	Unwatched bool   `json:"unwatched,omitempty" doc:"The key has no job: nothing watches it before its first report, and a misspelled key never reports. Absent otherwise."`
	URL       string `json:"url" doc:"Address of the picture. It needs no login, and shows the name of the key or of the rule with its state: any client that knows the address can read them. Only the path if the node has no public URL."`
}

// BadgeRequest is the body of a request for the address of a badge.
type BadgeRequest struct {
	Key identifier `json:"key,omitempty" doc:"Key of the badge. Absent for a badge of the whole rule." example:"crm"`
}

// badgeAPI has the operations on the badges of a rule.
type badgeAPI struct {
	keys      Heartbeats
	rules     Rules
	publicURL string
}

func (a *badgeAPI) register(all *operations) {
	const path = "/rules/{name}/badges"
	register(all, operation{
		ID: "create-badge", Tag: tagRules, Method: "POST", Path: path, Summary: "get the address of a badge of a heartbeat",
		Description: "A badge is an SVG picture with the state of a key, or of all keys of the rule. The same request returns the same address, until the badges of the rule are revoked.",
		Scope:       access.Rules, Reach: reachRule, Status: http.StatusOK, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, withBody(a.create))
	register(all, operation{
		ID: "revoke-badges", Tag: tagRules, Method: "DELETE", Path: path, Summary: "revoke all badges of a rule",
		Description: "Their addresses stop working at once. Caches may show the last picture for a minute.",
		Scope:       access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, noContent(a.revoke))
}

// ruleWithBadges returns the rule of a name, if it has a heartbeat.
func (a *badgeAPI) ruleWithBadges(ctx context.Context, name string) (rules.ListedRule, error) {
	l, err := a.rules.Get(ctx, name)
	if err == nil && !hasHeartbeat(l) {
		err = problem(http.StatusConflict, "rule %s has no heartbeat; badges show the state of heartbeats", name)
	}
	return l, err
}

func (a *badgeAPI) create(ctx context.Context, in *struct {
	RuleName
	Body BadgeRequest
},
) (Badge, error) {
	l, err := a.ruleWithBadges(ctx, string(in.Name))
	if err != nil {
		return Badge{}, err
	}
	key, err := a.keys.CreateBadgeKey(ctx, l.RuleID)
	if err != nil {
		return Badge{}, err
	}
	of := badges.Target{RuleID: l.RuleID, Key: string(in.Body.Key)}
	badge := Badge{Key: of.Key, URL: strings.TrimSuffix(a.publicURL, "/") + badges.Sign(key, of)}
	if of.Key != "" {
		page, err := a.keys.HeartbeatKeys(ctx, futurejobs.HeartbeatFilter{Rules: []futurejobs.HeartbeatRule{{ID: l.RuleID}}, Key: of.Key, Limit: 1})
		if err != nil {
			return Badge{}, err
		}
		badge.Unwatched = len(page.Items) == 0
	}
	return badge, nil
}

func (a *badgeAPI) revoke(ctx context.Context, in *struct{ RuleName }) error {
	l, err := a.ruleWithBadges(ctx, string(in.Name))
	if err != nil {
		return err
	}
	err = a.keys.DeleteBadgeKey(ctx, l.RuleID)
	if errors.Is(err, futurejobs.ErrNotFound) {
		err = problem(http.StatusNotFound, "rule %s has no badges", l.Name)
	}
	return err
}

// maxBadgeRequests is the maximum number of requests per second for one badge; twice as many at once.
const maxBadgeRequests = 5

// badgeAge is how long a client may keep a badge. Proxies of pictures, such as GitHub's, keep it as long.
const badgeAge = time.Minute

// badgePictures serves badges. The address of a badge is a secret and needs no token.
type badgePictures struct {
	*responder
	keys    Heartbeats
	catalog LoadedRules
	counts  *heartbeatCounts
	guesses *guesses
	served  spending
	now     func() time.Time
}

// show serves a badge. Requests for one badge are bounded.
func (a *badgePictures) show(w http.ResponseWriter, r *http.Request) {
	token, isBadge := strings.CutSuffix(chi.URLParam(r, "token"), badges.Suffix)
	of, err := a.target(r.Context(), token)
	switch {
	case err == nil && !isBadge:
		err = problem(http.StatusNotFound, "the address of a badge ends in %s", badges.Suffix)
	case err == nil:
		if ok, _ := a.served.spend(token, maxBadgeRequests, a.now()); !ok {
			err = problem(http.StatusTooManyRequests, "too many requests for this badge; try again in a second")
		}
	case errors.Is(err, badges.ErrInvalid):
		err = a.refuse(r, token)
	}
	var label, text, colour string
	if err == nil {
		label, text, colour, err = a.read(r.Context(), of)
	}
	var picture []byte
	if err == nil {
		picture, err = badges.Draw(label, text, colour)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	sum := sha256.Sum256(picture)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(badgeAge.Seconds())))
	h.Set("ETag", tag)
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Content-Security-Policy", "default-src 'none'")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	a.send(w, r, "image/svg+xml; charset=utf-8", http.StatusOK, picture)
}

// refuse returns the error of a wrong address. Wrong addresses of one client are bounded like wrong tokens; they keep no
// badge from the client, which may be a proxy of pictures for many readers.
func (a *badgePictures) refuse(r *http.Request, token string) error {
	shown := credential{token, byBadge}
	if err := a.guesses.check(r, nil, shown); err != nil {
		return err
	}
	a.guesses.refused(r, shown)
	return problem(http.StatusNotFound, "%v", badges.ErrInvalid)
}

// target returns the rule that a badge shows, and the key unless all keys.
func (a *badgePictures) target(ctx context.Context, token string) (badges.Target, error) {
	rule, err := badges.RuleOf(token)
	if err != nil {
		return badges.Target{}, err
	}
	key, err := a.keys.BadgeKey(ctx, rule)
	if errors.Is(err, futurejobs.ErrNotFound) {
		return badges.Target{}, badges.ErrInvalid
	}
	if err != nil {
		return badges.Target{}, err
	}
	return badges.Verify(key, token)
}

// read returns the label, the text and the colour of a badge.
func (a *badgePictures) read(ctx context.Context, of badges.Target) (label, text, colour string, err error) {
	counted, known := a.counts.newest(ctx)
	rule := counted.What.rules[of.RuleID]
	label, keys := rule.name, rule.keys
	if of.Key != "" {
		label, keys = of.Key, futurejobs.HeartbeatCounts{}
		page, err := a.keys.HeartbeatKeys(ctx, futurejobs.HeartbeatFilter{Rules: []futurejobs.HeartbeatRule{listedHeartbeat(a.catalog, rule.name, of.RuleID, a.now())}, Key: of.Key})
		if err != nil {
			return "", "", "", err
		}
		for _, k := range page.Items {
			keys[k.State]++
		}
	} else if !known || label == "" {
		return "heartbeat", "unknown", badges.Grey, nil
	}
	text, colour = badgeText(keys, rule.paused, of.Key == "" && len(rule.unwatched) > 0)
	return label, text, colour, nil
}

// badgeText returns the text and the colour of the worst state of keys, in the order of what a reader has to know: late keys,
// keys of which the state is unknown, keys without a report, and keys without a job. Without keys nothing was ever reported.
func badgeText(keys futurejobs.HeartbeatCounts, paused, lacksJob bool) (text, colour string) {
	all := int64(0)
	for _, n := range keys {
		all += n
	}
	late := keys[futurejobs.HeartbeatLate]
	switch {
	case late > 0 && all > 1:
		return fmt.Sprintf("%d of %d late", late, all), badges.Red
	case late > 0:
		return "late", badges.Red
	case paused || keys[futurejobs.HeartbeatPaused] > 0:
		return "paused", badges.Grey
	case keys[futurejobs.HeartbeatUnknown] > 0:
		return "unknown", badges.Grey
	case keys[futurejobs.HeartbeatNeverReported] > 0 || all == 0:
		return "never reported", badges.Grey
	case lacksJob:
		return "a key is not watched", badges.Grey
	}
	return "up", badges.Green
}
