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

// host is the state of this machine's name.
type host struct {
	name    string
	err     error // of the name or its lookup
	address []netip.Addr
	bind    error // of listening on the first address that is not loopback
	nodes   int   // of the Slurm job of this process; 0: none
}

// lookUp resolves this machine's name, and listens on its address for a moment.
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
	if a, ok := h.firstAddress(); ok {
		var l net.Listener
		if l, h.bind = new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(a, 0).String()); h.bind == nil {
			h.bind = l.Close()
		}
	}
	return h
}

// firstAddress returns the first address that other hosts may reach.
func (h host) firstAddress() (netip.Addr, bool) {
	for _, a := range h.address {
		if !a.IsLoopback() && !a.IsUnspecified() {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// toCheck returns a check that fails only in a job of several hosts: a single host needs no
// address.
func (h host) toCheck() Check {
	bad := Warn
	if h.nodes > 1 {
		bad = Fail
	}
	const needs = "; jobs on several hosts need one: add the name to DNS or /etc/hosts"
	address, ok := h.firstAddress()
	switch {
	case h.err != nil:
		return Check{Status: bad, Value: h.name + ", no address", Detail: h.err.Error() + needs}
	case !ok:
		return Check{Status: bad, Value: h.name + fmt.Sprintf(", only %v", h.address), Detail: "no address that other hosts can reach" + needs}
	case h.bind != nil:
		return Check{Status: bad, Value: h.name + ", " + address.String(),
			Detail: "cannot listen on this address: " + h.bind.Error() + "; check that the address belongs to this machine"}
	}
	return Check{Status: OK, Value: h.name + ", " + address.String() + ", accepts listeners"}
}

// errUnsynchronised is the error for a clock that no program synchronises.
type errUnsynchronised struct{}

func (errUnsynchronised) Error() string {
	return "the kernel reports an unsynchronised clock; start chronyd or another NTP client"
}

// clock checks the time. built is the time of the commit of this binary (zero: unknown), offset the
// kernel's estimate of the greatest error of its clock.
func clock(now, built time.Time, offset time.Duration, err error) Check {
	value := now.UTC().Format(time.RFC3339)
	switch {
	case now.Before(built):
		return Check{Status: Fail, Value: value, Detail: "the clock is before the source of this binary, " +
			built.UTC().Format(time.RFC3339) + "; set the clock"}
	case err != nil:
		return Check{Status: Warn, Value: value, Detail: err.Error()}
	}
	return Check{Status: OK, Value: value + ", synchronised within " + offset.Round(time.Microsecond).String()}
}
