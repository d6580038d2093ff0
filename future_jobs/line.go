package futurejobs

import "strings"

// tenantsLine ends the name of a tenants' line. No stream of the broker has a slash in its name.
const tenantsLine = "/tenants"

// A line is one reading of a stream: a cursor with a reader, a mark and a fence of its own. The rules of the operator
// are on the line with the name of the stream. The rules with bounds, those of tenants, are on another line, so that
// their events delay no event of the operator's rules. Both lines count by the sequences of the stream.

// TenantsLine returns the name of the line of a stream for the rules of tenants.
func TenantsLine(stream string) string { return stream + tenantsLine }

// IsTenantsLine reports whether a line is for the rules of tenants.
func IsTenantsLine(line string) bool { return strings.HasSuffix(line, tenantsLine) }

// StreamOf returns the stream that a line reads.
func StreamOf(line string) string { return strings.TrimSuffix(line, tenantsLine) }

// LineText returns a line as texts for people name it, such as "ORDERS" or "ORDERS (rules of tenants)".
func LineText(line string) string {
	if IsTenantsLine(line) {
		return StreamOf(line) + " (rules of tenants)"
	}
	return line
}
