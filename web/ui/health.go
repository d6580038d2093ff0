package ui

import (
	"net/http"
	"net/url"

	"deadman/web"
)

// healthView is whether deadman itself is all right: what has to be in order, the nodes, and what
// they ask and tell.
type healthView struct {
	web.Readiness
	Nodes    web.Nodes
	Sources  []web.Source
	Channels []web.Channel
	Load     *chart
}

func (u *UI) health(c client, _ *http.Request) (view, error) {
	var v healthView
	var err error
	if v.Readiness, err = c.readiness(); err != nil {
		return view{}, err
	}
	if err := c.get("/nodes", nil, &v.Nodes); err != nil {
		return view{}, err
	}
	var sources web.Page[web.Source]
	if err := c.get("/sources", url.Values{"limit": {"500"}}, &sources); err != nil {
		return view{}, err
	}
	var channels web.Page[web.Channel]
	if err := c.get("/channels", url.Values{"limit": {"500"}}, &channels); err != nil {
		return view{}, err
	}
	v.Sources, v.Channels = sources.Items, channels.Items
	if v.Load, err = c.load(u.Now()); err != nil {
		return view{}, err
	}
	return view{Title: "Health", Body: v, Ill: !v.Fine}, nil
}
