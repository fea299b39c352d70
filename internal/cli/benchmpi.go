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
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/transport"
)

// With transport=mpi the processes that mpirun started measure by themselves. Over MPI they
// also tell each other where they listen, so that tcp and shm join the same processes.

// measureByMPI is a process's part in a measurement.
func (c *benchCmd) measureByMPI(a *app, b bench.Bench, o bench.Options, place launcher.Place) error {
	const start = "start it as mpirun -np N ecrec bench collectives transport=mpi"
	switch {
	case !mpi.Built && place.Process > 0:
		return jobEnded(exitDone) // process 0 says it, and mpirun gives its exit code
	case !mpi.Built:
		return errUsage("transport=mpi: this binary was built without MPI; build one with make build-mpi and " + start)
	case place.Launch:
		return errUsage("transport=mpi: MPI starts the processes: " + start + ", without --np")
	}
	return a.byMPI("transport=mpi", place, func(comm mpi.Comm) error {
		o.World = a.mpiBenchWorld(comm, place.OneHost)
		err := c.measure(a, b, o)
		if errors.Is(err, bench.ErrSetting) && comm.Rank() > 0 {
			return nil // process 0 says it
		}
		return err
	})
}

// mpiBenchWorld is the world of the processes that MPI connects, one rank each.
func (a *app) mpiBenchWorld(comm mpi.Comm, oneHost bool) *bench.World {
	w := &bench.World{Rank: comm.Rank(), Size: comm.Size(), OneHost: oneHost, MPI: mpi.Library(),
		Transports: []string{"mpi", "shm", "tcp"}, Stop: a.stop.asked}
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
		o, err := meetOver(eps[0], oneHost)
		if err != nil {
			return nil, errors.Join(err, eps[0].Close())
		}
		beside = benchJoin(o)
		return eps[0], nil
	}
	return w
}

const (
	meetTag   = 1 // no channel's: see transport.Tag
	meetBytes = 512
)

// meeting is what a process tells the others: where it listens, and, process 0, the secret.
type meeting struct {
	Addr, Host string
	Secret     []byte
}

// meetOver has the processes that ep connects, one rank each, tell each other how to join
// without it.
func meetOver(ep transport.Endpoint, oneHost bool) (o transport.NetOptions, err error) {
	address := "127.0.0.1"
	if !oneHost {
		if address, err = launcher.OwnAddress(); err != nil {
			return o, err
		}
	}
	o = transport.NetOptions{Env: env.Real(), Processes: make([]transport.Process, ep.Size()), Self: ep.Rank(),
		Heartbeat: benchHeartbeat, Timeout: joinLimit}
	if o.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0")); err != nil {
		return o, fmt.Errorf("cannot listen for the other processes: %w", err)
	}
	mine := meeting{Addr: o.Listener.Addr().String(), Secret: make([]byte, 32)}
	mine.Host, _ = os.Hostname()
	_, _ = rand.Read(mine.Secret) // never fails
	all, err := exchange(ep, mine)
	if err != nil {
		return o, errors.Join(err, o.Listener.Close())
	}
	o.Secret = all[0].Secret
	for i, m := range all {
		o.Processes[i] = transport.Process{Ranks: []int{i}, Addr: m.Addr, Host: m.Host}
	}
	return o, nil
}

// exchange gives every rank what all have to tell.
func exchange(ep transport.Endpoint, mine meeting) ([]meeting, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	if len(text) > meetBytes {
		return nil, fmt.Errorf("the name of this host is too long to be told (%.80s)", mine.Host)
	}
	all := make([][]byte, ep.Size())
	all[ep.Rank()] = append(text, make([]byte, meetBytes-len(text))...)
	var under []transport.Request
	for peer := range all {
		if peer == ep.Rank() {
			continue
		}
		all[peer] = make([]byte, meetBytes)
		under = append(under, ep.Recv(peer, meetTag, all[peer]), ep.Send(peer, meetTag, all[ep.Rank()]))
	}
	for _, r := range under {
		if e := r.Wait(); e != nil && err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, err
	}
	meetings := make([]meeting, len(all))
	for i, b := range all {
		if err := json.Unmarshal(bytes.TrimRight(b, "\x00"), &meetings[i]); err != nil {
			return nil, fmt.Errorf("process %d does not say where it is: %w", i, err)
		}
	}
	return meetings, nil
}
