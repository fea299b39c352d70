// Package invariant says whether this build checks what costs too much to check
// always: in builds with the race detector, and with the tag "debug".
package invariant
