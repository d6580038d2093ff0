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
	Key       string    `json:"key,omitempty" doc:"Key of the URL. Absent for the ping key of the rule, whose URL is followed by /<key>." example:"nightly"`
	URL       string    `json:"url" doc:"Ping URL. It is a secret: any client that knows it can send pings. Only the path if the node has no public URL." example:"https://deadman.example.org/ping/5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"`
	CreatedAt time.Time `json:"created_at" doc:"Time of creation."`
	CreatedBy string    `json:"created_by" doc:"Actor who created the URL."`
}

func (a *pingAddressAPI) pingAddress(of pings.Address) PingAddress {
	return PingAddress{Key: of.Key, URL: strings.TrimRight(a.publicURL, "/") + of.Path(), CreatedAt: of.CreatedAt, CreatedBy: of.CreatedBy}
}

// PingAddressRequest is the body of a request that creates an address.
type PingAddressRequest struct {
	Key    identifier `json:"key,omitempty" doc:"Key of the URL. Absent for the ping key of the rule, which covers all keys." example:"nightly"`
	ID     string     `json:"id,omitempty" doc:"UUID or ping key, for existing clients. Default: a random one." example:"5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"`
	Rotate bool       `json:"rotate,omitempty" doc:"Replace the existing URL. It stops working within seconds."`
}

// PingEntry is an entry of the ping log, as the API returns it.
type PingEntry struct {
	Key        string    `json:"key" doc:"Key of the ping."`
	At         time.Time `json:"at" doc:"Time of the ping."`
	Kind       string    `json:"kind" enum:"success,start,fail,log" doc:"Kind of the ping."`
	Exit       *int      `json:"exit_status,omitempty" doc:"Exit status of the run. Absent if not sent."`
	Run        string    `json:"run,omitempty" doc:"Run ID of the ping. Absent if not sent."`
	DurationMS float64   `json:"duration_ms,omitempty" doc:"Duration of the run that the ping ends, in milliseconds. Present if the start of the run is on the same page."`
	UserAgent  string    `json:"user_agent,omitempty" doc:"User-Agent header of the client." example:"curl/8.5.0"`
	Body       string    `json:"body,omitempty" doc:"Body of the ping, up to the first 10,000 bytes. Absent if newer pings of the key have 50 kB of bodies."`
	BodySize   int       `json:"body_size,omitempty" doc:"Size of the body, in bytes."`
}

func newPingEntry(e pings.Entry) PingEntry {
	return PingEntry{
		Key: e.Key, At: e.At, Kind: string(e.Signal.Kind), Exit: e.Signal.Exit, Run: e.Run,
		DurationMS: float64(e.Took.Microseconds()) / 1000, UserAgent: e.Agent, Body: e.Body, BodySize: e.BodySize,
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
		ID: "list-ping-addresses", Tag: tagRules, Method: "GET", Path: path, Summary: "list the ping URLs of a rule, its ping key first, then by key",
		Description: "Ping URLs are secrets; the scope read does not permit this call.",
		Scope:       access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
	register(all, operation{
		ID: "create-ping-address", Tag: tagRules, Method: "POST", Path: path, Summary: "create a ping URL, or get the existing one",
		Description: "Several rules may share a ping key. The URL of a single key belongs to one rule.",
		Scope:       access.Rules, Reach: reachRule, Status: http.StatusCreated, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, a.create)
	register(all, operation{
		ID: "delete-ping-address", Tag: tagRules, Method: "DELETE", Path: path, Summary: "delete a ping URL, within seconds on all nodes",
		Scope: access.Rules, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, noContent(a.remove))
	register(all, operation{
		ID: "list-pings", Tag: tagRules, Method: "GET", Path: path + "/log", Summary: "list the last pings of a rule, newest first",
		Description: "Keeps the last 100 pings of each key and up to 50 kB of their bodies. Entries are written within a second. A crash may lose the " +
			"entries of the last second, but not the effects of their pings.",
		Scope: access.Read, Reach: reachRule, Errors: []int{http.StatusNotFound},
	}, withBody(a.log))
}

// ruleWithPings returns the rule of a name, if it has a heartbeat.
func (a *pingAddressAPI) ruleWithPings(ctx context.Context, name string) (rules.ListedRule, error) {
	if a.pings == nil {
		return rules.ListedRule{}, problem(http.StatusNotFound, "this node accepts no pings")
	}
	l, err := a.rules.Get(ctx, name)
	if err == nil && l.Document.Trigger.Heartbeat == nil {
		err = problem(http.StatusConflict, "rule %s has no heartbeat; add one to its trigger to receive pings", name)
	}
	return l, err
}

// pingListIn selects a page of the addresses.
type pingListIn struct {
	RuleName
	Key    identifier `query:"key" doc:"Filter by key." example:"nightly"`
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items on the page."`
	Cursor identifier `query:"cursor" doc:"Value of next on the previous page. Omit it for the first page."`
}

// pingCursor is the prefix of the cursor of an address list, before the last key of the page.
const pingCursor = "key:"

func (a *pingAddressAPI) list(ctx context.Context, in *pingListIn) (Page[PingAddress], error) {
	l, err := a.ruleWithPings(ctx, string(in.Name))
	if err != nil {
		return Page[PingAddress]{}, err
	}
	all, err := a.pings.Addresses(ctx, l.RuleID)
	if err != nil {
		return Page[PingAddress]{}, err
	}
	if in.Key != "" {
		all = slices.DeleteFunc(all, func(of pings.Address) bool { return of.Key != string(in.Key) })
	}
	slices.SortFunc(all, func(a, b pings.Address) int { return strings.Compare(a.Key, b.Key) })
	if in.Cursor != "" {
		last, ours := strings.CutPrefix(string(in.Cursor), pingCursor)
		if !ours {
			return Page[PingAddress]{}, futurejobs.ErrBadCursor
		}
		all = slices.DeleteFunc(all, func(of pings.Address) bool { return of.Key <= last })
	}
	return pageFrom(all, in.Limit, a.pingAddress, func(of pings.Address) string { return pingCursor + of.Key }), nil
}

// pingAddressOut is a created or existing address.
type pingAddressOut struct {
	Status int
	Body   PingAddress
}

func pingIDTaken() error {
	return problem(http.StatusConflict, "the ID belongs to another key of this or another rule; choose another one, or omit it for a random one")
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
	l, err := a.ruleWithPings(ctx, string(in.Name))
	if err != nil {
		return nil, err
	}
	request := pings.Address{RuleID: l.RuleID, Rule: l.Name, Key: string(in.Body.Key)}
	if in.Body.ID != "" {
		if request.ID, err = pings.ParseID(in.Body.ID, request.IsPingKey()); err != nil {
			return nil, refused("body.id", "%v", err)
		}
		if err := a.mayShare(ctx, request.ID); err != nil {
			return nil, err
		}
	}
	kept, created, err := a.pings.Create(ctx, request, in.Body.Rotate)
	switch {
	case errors.Is(err, pings.ErrAddressExists):
		return nil, pingIDTaken()
	case errors.Is(err, pings.ErrTooManyAddresses):
		return nil, problem(http.StatusConflict, "%v", err)
	case err != nil:
		return nil, err
	case !created && request.ID != "" && kept.ID != request.ID:
		return nil, problem(http.StatusConflict, "another ping URL exists; set rotate to replace it")
	}
	out := &pingAddressOut{Status: http.StatusOK, Body: a.pingAddress(kept)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (a *pingAddressAPI) remove(ctx context.Context, in *struct {
	RuleName
	Key identifier `query:"key" doc:"Key of the URL. Absent for the ping key of the rule." example:"nightly"`
},
) error {
	l, err := a.ruleWithPings(ctx, string(in.Name))
	if err != nil {
		return err
	}
	return a.pings.Delete(ctx, l.RuleID, string(in.Key))
}

// pingLogIn selects a page of the ping log.
type pingLogIn struct {
	RuleName
	Key identifier `query:"key" doc:"Filter by key." example:"nightly"`
	Paging
}

func (a *pingAddressAPI) log(ctx context.Context, in *pingLogIn) (Page[PingEntry], error) {
	l, err := a.ruleWithPings(ctx, string(in.Name))
	if err != nil {
		return Page[PingEntry]{}, err
	}
	before := int64(0)
	if in.Cursor != "" { // the id of the last entry
		if before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || before < 1 {
			return Page[PingEntry]{}, futurejobs.ErrBadCursor
		}
	}
	entries, err := a.pings.History(ctx, l.RuleID, string(in.Key), before, in.Limit+1)
	if err != nil {
		return Page[PingEntry]{}, err
	}
	return pageFrom(entries, in.Limit, newPingEntry, func(e pings.Entry) string { return strconv.FormatInt(e.ID, 10) }), nil
}
