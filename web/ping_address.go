package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/rules"
)

// PingAddress is an address for pings of a rule, as the API returns it.
type PingAddress struct {
	Key       string    `json:"key,omitempty" doc:"Whose pings come in there; absent: it is the rule's ping key, and /<key> follows the address." example:"nightly"`
	URL       string    `json:"url" doc:"Whoever knows it can send pings. A path alone where the node does not know its public address." example:"https://deadman.example.org/ping/5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

func (a *pingAddressAPI) pingAddress(of pings.Address) PingAddress {
	return PingAddress{Key: of.Key, URL: strings.TrimRight(a.publicURL, "/") + of.Path(), CreatedAt: of.CreatedAt, CreatedBy: of.CreatedBy}
}

// PingAddressRequest is the body of a request that creates an address.
type PingAddressRequest struct {
	Key    identifier `json:"key,omitempty" doc:"Whose pings are to come in there; absent: the rule's ping key, for all its keys." example:"nightly"`
	ID     string     `json:"id,omitempty" doc:"The UUID that clients have already, or the ping key; absent: a new one that nobody can guess." example:"5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"`
	Rotate bool       `json:"rotate,omitempty" doc:"Another address takes the place of the one that is there, which ends within seconds."`
}

// PingEntry is an entry of the ping log, as the API returns it.
type PingEntry struct {
	Key      string    `json:"key"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind" enum:"success,start,fail,log"`
	Exit     *int      `json:"exit_status,omitempty" doc:"Absent: it was not told."`
	Run      string    `json:"run,omitempty" doc:"The run that it is of; absent: it named none."`
	TookMS   float64   `json:"took_ms,omitempty" doc:"How long the run took that it ends, in milliseconds, where its start is on the page."`
	Agent    string    `json:"agent,omitempty" doc:"What the client calls itself." example:"curl/8.5.0"`
	Body     string    `json:"body,omitempty" doc:"What was sent along, at most its first 10,000 bytes; absent where newer pings of the key sent 50 kB along."`
	BodySize int       `json:"body_size,omitempty" doc:"How many bytes were sent along."`
}

func newPingEntry(e pings.Entry) PingEntry {
	return PingEntry{
		Key: e.Key, At: e.At, Kind: string(e.Signal.Kind), Exit: e.Signal.Exit, Run: e.Run,
		TookMS: float64(e.Took.Microseconds()) / 1000, Agent: e.Agent, Body: e.Body, BodySize: e.BodySize,
	}
}

// pingAddressAPI has the operations on a rule's ping addresses and its log of pings.
type pingAddressAPI struct {
	pings     Pings // nil: the node accepts none
	rules     Rules
	publicURL string
}

func (a *pingAddressAPI) register(all *operations) {
	const path = "/rules/{name}/pings"
	register(all, operation{
		ID: "list-ping-addresses", Tag: tagRules, Method: "GET", Path: path, Does: "lists where pings of a rule come in, its ping key first, then by key",
		Says:  "Addresses are secrets, so that the scope read does not show them.",
		Scope: access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
	register(all, operation{
		ID: "create-ping-address", Tag: tagRules, Method: "POST", Path: path, Does: "makes an address where pings come in, or shows the one that is there",
		Says:  "Several rules may have one ping key, as the checks of one project have at healthchecks; an address of a key belongs to it alone.",
		Scope: access.Rules, Reach: reachRule, Status: http.StatusCreated, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, a.create)
	register(all, operation{
		ID: "delete-ping-address", Tag: tagRules, Method: "DELETE", Path: path, Does: "takes an address away, within seconds on all nodes",
		Scope: access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, noContent(a.remove))
	register(all, operation{
		ID: "list-pings", Tag: tagRules, Method: "GET", Path: path + "/log", Does: "lists the last pings of a rule, newest first",
		Says:  "Of each key the last 100 are kept, and the last 50 kB of what they sent along. They are written within a second; a crash may lose those of the last second here, and none of what they said.",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.log))
}

// pinged returns the rule of a name, if it has a heartbeat.
func (a *pingAddressAPI) pinged(ctx context.Context, name string) (rules.ListedRule, error) {
	if a.pings == nil {
		return rules.ListedRule{}, problem(http.StatusNotFound, "this node takes no pings")
	}
	l, err := a.rules.Get(ctx, name)
	if err == nil && l.Document.Trigger.Heartbeat == nil {
		err = problem(http.StatusConflict, "rule %s has no heartbeat, so no ping means anything to it; give its trigger one", name)
	}
	return l, err
}

// pingListIn selects a page of the addresses.
type pingListIn struct {
	RuleName
	Key    identifier `query:"key" doc:"Of this key alone." example:"nightly"`
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many items the page has at most."`
	Cursor identifier `query:"cursor" doc:"Where the page before ended: its next. Leave it out for the first page."`
}

// pingCursor is the prefix of the cursor of an address list, before the last key of the page.
const pingCursor = "key:"

func (a *pingAddressAPI) list(ctx context.Context, in *pingListIn) (Page[PingAddress], error) {
	page := Page[PingAddress]{Items: []PingAddress{}}
	l, err := a.pinged(ctx, string(in.Name))
	if err != nil {
		return page, err
	}
	all, err := a.pings.Addresses(ctx, l.RuleID)
	if err != nil {
		return page, err
	}
	if in.Key != "" {
		all = slices.DeleteFunc(all, func(of pings.Address) bool { return of.Key != string(in.Key) })
	}
	slices.SortFunc(all, func(a, b pings.Address) int { return strings.Compare(a.Key, b.Key) })
	if in.Cursor != "" {
		last, ours := strings.CutPrefix(string(in.Cursor), pingCursor)
		if !ours {
			return page, futurejobs.ErrBadCursor
		}
		all = slices.DeleteFunc(all, func(of pings.Address) bool { return of.Key <= last })
	}
	for _, of := range all[:min(in.Limit, len(all))] {
		page.Items = append(page.Items, a.pingAddress(of))
	}
	if n := len(page.Items); n < len(all) {
		page.Next = pingCursor + page.Items[n-1].Key
	}
	return page, nil
}

// pingAddressOut is a created or existing address.
type pingAddressOut struct {
	Status int
	Body   PingAddress
}

func pingIDTaken() error {
	return problem(http.StatusConflict, "the id is that of another key, of this rule or another; choose another, or leave it out for a new one")
}

// mayShare refuses an id of a rule that the token may not change: two rules with one ping key can make each other's
// pings ambiguous.
func (a *pingAddressAPI) mayShare(ctx context.Context, id string) error {
	names, err := a.pings.Sharers(ctx, id)
	if err != nil {
		return err
	}
	for _, name := range names {
		if principalOf(ctx).requireRule(access.Rules, name) != nil {
			return pingIDTaken()
		}
	}
	return nil
}

func (a *pingAddressAPI) create(ctx context.Context, in *struct {
	RuleName
	Body PingAddressRequest
},
) (*pingAddressOut, error) {
	l, err := a.pinged(ctx, string(in.Name))
	if err != nil {
		return nil, err
	}
	wish := pings.Address{RuleID: l.RuleID, Rule: l.Name, Key: string(in.Body.Key)}
	if in.Body.ID != "" {
		if wish.ID, err = pings.ParseID(in.Body.ID, wish.IsPingKey()); err != nil {
			return nil, refused("body.id", "%v", err)
		}
		if err := a.mayShare(ctx, wish.ID); err != nil {
			return nil, err
		}
	}
	kept, created, err := a.pings.Create(ctx, wish, in.Body.Rotate)
	switch {
	case errors.Is(err, pings.ErrAddressExists):
		return nil, pingIDTaken()
	case errors.Is(err, pings.ErrTooManyAddresses):
		return nil, problem(http.StatusConflict, "%v", err)
	case err != nil:
		return nil, err
	case !created && wish.ID != "" && kept.ID != wish.ID:
		return nil, problem(http.StatusConflict, "there is another address already; with rotate, the given one takes its place")
	}
	out := &pingAddressOut{Status: http.StatusOK, Body: a.pingAddress(kept)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (a *pingAddressAPI) remove(ctx context.Context, in *struct {
	RuleName
	Key identifier `query:"key" doc:"Whose address; absent: the rule's ping key." example:"nightly"`
},
) error {
	l, err := a.pinged(ctx, string(in.Name))
	if err != nil {
		return err
	}
	return a.pings.Delete(ctx, l.RuleID, string(in.Key))
}

// pingLogIn selects a page of the ping log.
type pingLogIn struct {
	RuleName
	Key identifier `query:"key" doc:"Of this key." example:"nightly"`
	Paging
}

func (a *pingAddressAPI) log(ctx context.Context, in *pingLogIn) (Page[PingEntry], error) {
	page := Page[PingEntry]{Items: []PingEntry{}}
	l, err := a.pinged(ctx, string(in.Name))
	if err != nil {
		return page, err
	}
	before := int64(0)
	if in.Cursor != "" { // the id of the last entry
		if before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || before < 1 {
			return page, futurejobs.ErrBadCursor
		}
	}
	entries, err := a.pings.History(ctx, l.RuleID, string(in.Key), before, in.Limit+1)
	if err != nil {
		return page, err
	}
	for i, e := range entries {
		if i == in.Limit {
			page.Next = strconv.FormatInt(entries[i-1].ID, 10)
			break
		}
		page.Items = append(page.Items, newPingEntry(e))
	}
	return page, nil
}
