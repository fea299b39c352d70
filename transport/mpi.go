package transport

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/mpi"
)

// MPIOptions configure JoinMPI.
type MPIOptions struct {
	Env  env.Env
	Comm mpi.Comm
	// Ranks are the ranks of each process of Comm; together 0..n-1.
	Ranks [][]int
	// Host is the host of this process.
	Host string
	// Same must be equal in all processes. It holds the job's config, for example.
	Same      string
	Heartbeat time.Duration
	Silence   time.Duration // as in NetOptions
	Timeout   time.Duration // of JoinMPI
	Stats     *NetStats
	// OnJoin, if set, is called with the Host of each process.
	OnJoin func(hosts []string)
}

// JoinMPI connects the processes of an MPI communicator, as Join connects those of a job.
// It returns the endpoints of this process's ranks. They use o.Comm until all of them are
// closed. The launcher of the MPI job decides which processes take part; there is no
// secret and no authentication.
func JoinMPI(o MPIOptions) ([]Endpoint, error) {
	self := o.Comm.Rank()
	n := NetOptions{Env: o.Env, Processes: make([]Process, o.Comm.Size()), Self: self, Heartbeat: o.Heartbeat,
		Silence: o.Silence, Timeout: o.Timeout, Stats: o.Stats}
	if len(o.Ranks) != len(n.Processes) {
		return nil, fmt.Errorf("transport: ranks for %d processes, but MPI has %d", len(o.Ranks), len(n.Processes))
	}
	c := &mpiEngine{env: o.Env, comm: o.Comm, stopped: env.NewEvent(o.Env, "MPI engine"), mon: o.Env.Monitor("MPI engine")}
	hosts, err := c.exchangeHellos(&o)
	if err != nil {
		return nil, err
	}
	for i := range n.Processes {
		n.Processes[i] = Process{Ranks: o.Ranks[i], Host: hosts[i]}
	}
	if o.OnJoin != nil {
		o.OnJoin(hosts)
	}
	w, err := newNetWorld(&n)
	if err != nil {
		return nil, err
	}
	for peer := range w.links {
		if peer != self {
			w.links[peer] = newLink(w, peer, nil)
			w.links[peer].engine = c
			w.links[peer].lastReceived.Store(int64(o.Env.Now())) // its hello counts as a message
		}
	}
	c.world, c.shared, w.engine = w, w.polling.shared, c
	if err := c.postPacketRecvs(); err != nil {
		return nil, err
	}
	return w.startLinks(), nil
}

// exchangeHellos sends this process's hello to all others and checks theirs. It returns
// the hosts of all processes.
func (e *mpiEngine) exchangeHellos(o *MPIOptions) (hosts []string, err error) {
	hello := fmt.Appendf(nil, "ecrec %d %s\n%s\n%s", protocolVersion, runtime.GOARCH, o.Same, o.Host)
	if len(hello) > packetBytes {
		return nil, fmt.Errorf("transport: a hello of %d bytes is too long", len(hello))
	}
	self, size := o.Comm.Rank(), o.Comm.Size()
	hosts = make([]string, size)
	hosts[self] = o.Host
	for peer := range size {
		if peer == self {
			continue
		}
		theirs := make([]byte, packetBytes)
		if err := e.comm.Recv(e.takeSlot(mpiTransfer{kind: helloTransfer, p: theirs}), theirs, peer, mpiHello); err != nil {
			return nil, err
		}
		if err := e.comm.Send(e.takeSlot(mpiTransfer{}), hello, peer, mpiHello); err != nil {
			return nil, err
		}
	}
	until := o.Env.Now() + o.Timeout
	for left := 2 * (size - 1); left > 0; {
		if e.done, err = e.comm.Poll(e.done[:0]); err != nil {
			return nil, err
		}
		for _, d := range e.done {
			if d.Err != nil {
				return nil, d.Err
			}
			if p := e.transfers[d.Slot]; p.kind == helloTransfer {
				if hosts[d.From], err = readHello(p.p[:d.Bytes], hello, d.From); err != nil {
					return nil, err
				}
			}
			e.freeSlot(d.Slot)
			left--
		}
		if len(e.done) > 0 {
			continue
		}
		if o.Env.Now() > until {
			return nil, fmt.Errorf("transport: not all of %d processes joined within %v", size, o.Timeout)
		}
		o.Env.Sleep(mpiHelloPoll)
	}
	return hosts, nil
}

// readHello returns the host in a hello, if the rest of it equals this process's hello.
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
