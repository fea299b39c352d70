package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/mpi"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/transport"
)

// With transport=mpi the processes that mpirun started measure by themselves. They exchange
// addresses over MPI, so that tcp and shm connect the same processes.

// measureByMPI runs the part of this process in a measurement.
func (c *benchCmd) measureByMPI(a *app, b bench.Bench, o bench.Options, place place.Place) error {
	const start = "start it as mpirun -np N ecrec bench collectives transport=mpi"
	switch {
	case !mpi.Built && place.Process > 0:
		return jobEnded(exitDone) // process 0 reports it, and mpirun returns its exit code
	case !mpi.Built:
		return errUsage("transport=mpi: this binary was built without MPI; build it with make build-mpi and " + start)
	case place.Launch:
		return errUsage("transport=mpi: MPI starts the processes: " + start + ", without --np")
	}
	return a.byMPI("transport=mpi", place, func(comm mpi.Comm) error {
		o.World = a.mpiBenchWorld(comm, place.OneHost)
		err := c.measureHere(a, b, o)
		if errors.Is(err, bench.ErrSetting) && comm.Rank() > 0 {
			return nil // process 0 reports it
		}
		return err
	})
}

// mpiBenchWorld returns the world of the processes that MPI connects, one rank each.
func (a *app) mpiBenchWorld(comm mpi.Comm, oneHost bool) *bench.World {
	w := &bench.World{Rank: comm.Rank(), Size: comm.Size(), OneHost: oneHost, MPI: mpi.Library(),
		Transports: []string{"mpi", "shm", "tcp"}, Stop: a.stop.isRequested}
	if !oneHost {
		w.Transports = []string{"mpi", "tcp"}
	}
	ranks := make([][]int, comm.Size())
	for i := range ranks {
		ranks[i] = []int{i}
	}
	var beside func(string) (transport.Endpoint, error)
	w.Join = func(name string) (transport.Endpoint, error) {
		if name != "mpi" {
			return beside(name)
		}
		eps, err := transport.JoinMPI(a.mpiOptions(comm, ranks, nil, benchHeartbeat))
		if err != nil {
			return nil, err
		}
		o, err := exchangePeers(eps[0], oneHost)
		if err != nil {
			return nil, errors.Join(err, eps[0].Close())
		}
		beside = benchJoin(o)
		return eps[0], nil
	}
	return w
}

const (
	meetTag   = 1 // of no channel: see transport.Tag
	meetBytes = 512
)

// peer is the address of a process, and the secret of the job if it is process 0.
type peer struct {
	Addr, Host string
	Secret     []byte
}

// exchangePeers returns the options by which the processes that ep connects, one rank each, can
// connect over TCP.
func exchangePeers(ep transport.Endpoint, oneHost bool) (o transport.NetOptions, err error) {
	address := "127.0.0.1"
	if !oneHost {
		if address, err = place.OwnAddress(); err != nil {
			return o, err
		}
	}
	o = transport.NetOptions{Env: env.Real(), Processes: make([]transport.Process, ep.Size()), Self: ep.Rank(),
		Heartbeat: benchHeartbeat, Timeout: joinLimit}
	if o.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0")); err != nil {
		return o, fmt.Errorf("cannot listen for the other processes: %w", err)
	}
	mine := peer{Addr: o.Listener.Addr().String(), Secret: make([]byte, 32)}
	mine.Host, _ = os.Hostname()
	_, _ = rand.Read(mine.Secret) // never fails
	all, err := allGather(ep, mine)
	if err != nil {
		return o, errors.Join(err, o.Listener.Close())
	}
	o.Secret = all[0].Secret
	for i, m := range all {
		o.Processes[i] = transport.Process{Ranks: []int{i}, Addr: m.Addr, Host: m.Host}
	}
	return o, nil
}

// allGather returns the peers of all ranks. Every rank calls it.
func allGather(ep transport.Endpoint, mine peer) ([]peer, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	if len(text) > meetBytes {
		return nil, fmt.Errorf("the name of this host is too long to exchange (%.80s)", mine.Host)
	}
	all := make([][]byte, ep.Size())
	all[ep.Rank()] = append(text, make([]byte, meetBytes-len(text))...)
	var pending []transport.Request
	for rank := range all {
		if rank == ep.Rank() {
			continue
		}
		all[rank] = make([]byte, meetBytes)
		pending = append(pending, ep.Recv(rank, meetTag, all[rank]), ep.Send(rank, meetTag, all[ep.Rank()]))
	}
	for _, r := range pending {
		if e := r.Wait(); e != nil && err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, err
	}
	peers := make([]peer, len(all))
	for i, b := range all {
		if err := json.Unmarshal(bytes.TrimRight(b, "\x00"), &peers[i]); err != nil {
			return nil, fmt.Errorf("process %d sent no valid address: %w", i, err)
		}
	}
	return peers, nil
}
