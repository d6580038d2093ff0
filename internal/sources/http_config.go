package sources

import (
	"net/netip"
	"net/url"

	"deadman/internal/configfile"
)

// base returns the URL of v.
func base(v configfile.Value) *url.URL {
	text := v.Text()
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		v.Problem("not a web address; write the full URL, such as https://shop.example.org/api")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		v.Problem("a user, a query or a fragment is not allowed; write secrets into headers, and queries into the paths of rules")
	default:
		return u
	}
	return nil
}

// readAllow returns the non-public addresses that a host may have.
func readAllow(v configfile.Value) []netip.Prefix {
	var all []netip.Prefix
	for _, one := range v.OneOrList() {
		text := one.Text()
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(text); err == nil && addr.Zone() == "" {
				prefix = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil || !prefix.IsValid() {
			one.Problem("%q is not an address or an address range; write one such as 10.0.0.0/8 or 127.0.0.1", configfile.Truncate(text, 80))
			continue
		}
		all = append(all, prefix.Masked())
	}
	return all
}
