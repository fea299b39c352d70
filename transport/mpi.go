package transport

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/mpi"
)

// MPIOptions is what JoinMPI needs.
type MPIOptions struct {
	Env  env.Env
	Comm mpi.Comm
	// Ranks are the ranks of each process of Comm; together 0..n-1.
	Ranks [][]int
	// Host says where this process runs.
	Host string
	// Same is what all processes must agree on, such as the job's config.
	Same      string
	Heartbeat time.Duration
	Timeout   time.Duration // of JoinMPI
	Stats     *NetStats
}

// JoinMPI connects the processes of an MPI communicator, as Join those of a job. It
// returns the endpoints of this process's ranks, which use o.Comm until all of them are
// closed. Who may take part is up to who started the processes; nobody proves that he
// knows a secret.
func JoinMPI(o MPIOptions) ([]Endpoint, error) {
	self := o.Comm.Rank()
	n := NetOptions{Env: o.Env, Processes: make([]Process, o.Comm.Size()), Self: self, Heartbeat: o.Heartbeat, Timeout: o.Timeout, Stats: o.Stats}
	if len(o.Ranks) != len(n.Processes) {
		return nil, fmt.Errorf("transport: ranks for %d processes, and MPI has %d", len(o.Ranks), len(n.Processes))
	}
	c := &carrier{env: o.Env, comm: o.Comm, over: env.NewEvent(o.Env, "MPI carrier"), mon: o.Env.Monitor("MPI carrier")}
	hosts, err := c.greet(&o)
	if err != nil {
		return nil, err
	}
	for i := range n.Processes {
		n.Processes[i] = Process{Ranks: o.Ranks[i], Host: hosts[i]}
	}
	w, err := newNetWorld(&n)
	if err != nil {
		return nil, err
	}
	for peer := range w.links {
		if peer != self {
			w.links[peer] = newLink(w, peer, nil)
			w.links[peer].carrier = c
		}
	}
	c.world, c.shared, w.carrier = w, w.polling.shared, c
	if err := c.await(); err != nil {
		return nil, err
	}
	return w.start(), nil
}

// greet has all processes say who they are, and compares what they must agree on.
func (c *carrier) greet(o *MPIOptions) (hosts []string, err error) {
	hello := fmt.Appendf(nil, "ecrec %d %s\n%s\n%s", protocolVersion, runtime.GOARCH, o.Same, o.Host)
	if len(hello) > packetBytes {
		return nil, fmt.Errorf("transport: a greeting of %d bytes", len(hello))
	}
	self, size := o.Comm.Rank(), o.Comm.Size()
	hosts = make([]string, size)
	hosts[self] = o.Host
	for peer := range size {
		if peer == self {
			continue
		}
		theirs := make([]byte, packetBytes)
		if err := c.comm.Recv(c.open(passage{kind: helloPassage, p: theirs}), theirs, peer, mpiHello); err != nil {
			return nil, err
		}
		if err := c.comm.Send(c.open(passage{}), hello, peer, mpiHello); err != nil {
			return nil, err
		}
	}
	until := o.Env.Now() + o.Timeout
	for left := 2 * (size - 1); left > 0; {
		if c.done, err = c.comm.Poll(c.done[:0]); err != nil {
			return nil, err
		}
		for _, d := range c.done {
			if d.Err != nil {
				return nil, d.Err
			}
			if p := c.under[d.Slot]; p.kind == helloPassage {
				if hosts[d.From], err = readHello(p.p[:d.Bytes], hello, d.From); err != nil {
					return nil, err
				}
			}
			c.shut(d.Slot)
			left--
		}
		if len(c.done) > 0 {
			continue
		}
		if o.Env.Now() > until {
			return nil, fmt.Errorf("transport: not all of %d processes have come within %v", size, o.Timeout)
		}
		o.Env.Sleep(mpiHelloPoll)
	}
	return hosts, nil
}

// readHello is where a process runs that says the same as this one.
func readHello(theirs, ours []byte, from int) (host string, err error) {
	t, o := bytes.SplitN(theirs, []byte("\n"), 3), bytes.SplitN(ours, []byte("\n"), 3)
	switch {
	case len(t) < 3 || !bytes.Equal(t[0], o[0]):
		return "", fmt.Errorf("process %d runs another version of ecrec (%.80q, here %.80q): start the same one everywhere", from, t[0], o[0])
	case !bytes.Equal(t[1], o[1]):
		return "", fmt.Errorf("process %d has another config or command line than this one: start all with the same", from)
	}
	return string(t[2]), nil
}
