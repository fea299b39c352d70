package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"
)

// host is what is known of this machine's name.
type host struct {
	name    string
	err     error // of the name or of looking it up
	address []netip.Addr
	bind    error // of listening at the first address that is not loopback
	nodes   int   // of the Slurm job that asks; 0: none
}

// lookUp resolves this machine's name, and listens at its address for a moment.
func lookUp(ctx context.Context) (h host) {
	h.nodes, _ = strconv.Atoi(os.Getenv("SLURM_JOB_NUM_NODES"))
	if h.name, h.err = os.Hostname(); h.err != nil {
		return h
	}
	if h.address, h.err = net.DefaultResolver.LookupNetIP(ctx, "ip", h.name); h.err != nil {
		return h
	}
	for i, a := range h.address {
		h.address[i] = a.Unmap()
	}
	if a, ok := h.reachable(); ok {
		var l net.Listener
		if l, h.bind = new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(a, 0).String()); h.bind == nil {
			h.bind = l.Close()
		}
	}
	return h
}

// reachable is the first address that others may reach.
func (h host) reachable() (netip.Addr, bool) {
	for _, a := range h.address {
		if !a.IsLoopback() && !a.IsUnspecified() {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// check fails only in a job of several hosts: one host is well without.
func (h host) check() Check {
	bad := Warn
	if h.nodes > 1 {
		bad = Fail
	}
	const needs = "; jobs on several hosts need one: put the name into DNS or /etc/hosts"
	address, ok := h.reachable()
	switch {
	case h.err != nil:
		return Check{Status: bad, Value: h.name + ", no address", Detail: h.err.Error() + needs}
	case !ok:
		return Check{Status: bad, Value: h.name + fmt.Sprintf(", only %v", h.address), Detail: "no address that other hosts can reach" + needs}
	case h.bind != nil:
		return Check{Status: bad, Value: h.name + ", " + address.String(), Detail: "nobody can listen there: " + h.bind.Error() + "; is the address this machine's?"}
	}
	return Check{Status: OK, Value: h.name + ", " + address.String() + ", can be listened at"}
}

// errUnsynchronised is the clock's where nobody sets it.
type errUnsynchronised struct{}

func (errUnsynchronised) Error() string {
	return "the kernel says that nobody synchronises it; start chronyd or another NTP client"
}

// clock takes the time, when the commit was made that this binary was built from
// (zero: unknown), and by how much the kernel deems its clock to be off at most.
func clock(now, built time.Time, offset time.Duration, err error) Check {
	value := now.UTC().Format(time.RFC3339)
	switch {
	case now.Before(built):
		return Check{Status: Fail, Value: value, Detail: "this binary's source is of " + built.UTC().Format(time.RFC3339) + ": the clock is wrong; set it"}
	case err != nil:
		return Check{Status: Warn, Value: value, Detail: err.Error()}
	}
	return Check{Status: OK, Value: value + ", synchronised within " + offset.Round(time.Microsecond).String()}
}
