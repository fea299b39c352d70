package forecast

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/transport"
)

// Messages of a measurement: many short ones, which are all posted at once, and a few long ones.
const (
	shortMessages, shortBytes = 256, 256
	longMessages, longBytes   = 4, 4 << 20
	wireRounds                = 8
	tagOfMeasurement          = 1
	joinTimeout               = 10 * time.Second
	quietHeartbeat            = 2 * time.Second
)

// measureWires measures the cost of messages between processes of one machine, and of two: over TCP, without the
// time of the network, which link has. far selects whether connections between machines are sealed.
func measureWires(e env.Env, h *plan.Host, link *transport.EmulatedLink, far transport.Secure) (err error) {
	if h.Processes*h.Machines < 2 {
		return nil
	}
	if h.Here, err = measureWire(e, true, transport.SecureOff); err != nil {
		return err
	}
	if h.Far, err = measureWire(e, false, far); err != nil {
		return err
	}
	if link != nil {
		h.Far.Latency, h.Far.BytesPerS = link.Latency.Seconds(), link.BytesPerS
	}
	return nil
}

// measureWire measures messages that two endpoints send each other at the same time.
func measureWire(e env.Env, shared bool, secure transport.Secure) (w plan.Wire, err error) {
	eps, err := joinTwo(e, shared, secure)
	if err != nil {
		return w, fmt.Errorf("forecast: measure messages over the loopback interface: %w", err)
	}
	defer func() {
		for _, ep := range eps {
			_ = ep.Close()
		}
	}()
	short, long := time.Hour, time.Hour
	for range wireRounds {
		a, err := swap(e, eps, shortMessages, shortBytes)
		if err != nil {
			return w, err
		}
		b, err := swap(e, eps, longMessages, longBytes)
		if err != nil {
			return w, err
		}
		short, long = min(short, a), min(long, b)
	}
	w.PerMessage = short.Seconds() / shortMessages
	w.PerByte = long.Seconds() / (longMessages * longBytes)
	return w, nil
}

// swap sends messages both ways and returns how long that takes.
func swap(e env.Env, eps [2]transport.Endpoint, messages, bytes int) (time.Duration, error) {
	var wait sync.WaitGroup
	var errs [2]error
	began := e.Now()
	for i, ep := range eps {
		wait.Go(func() {
			var requests []transport.Request
			out, in := make([]byte, bytes), make([]byte, bytes*messages)
			for m := range messages {
				requests = append(requests, ep.Recv(1-i, tagOfMeasurement, in[m*bytes:(m+1)*bytes]))
			}
			for range messages {
				requests = append(requests, ep.Send(1-i, tagOfMeasurement, out))
			}
			for _, r := range requests {
				if err := r.Wait(); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return e.Now() - began, nil
}

// joinTwo connects two endpoints over the loopback interface, as if they were in two processes.
func joinTwo(e env.Env, shared bool, secure transport.Secure) (eps [2]transport.Endpoint, err error) {
	processes := make([]transport.Process, 2)
	var listeners [2]net.Listener
	for i := range processes {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return eps, err
		}
		defer listeners[i].Close()
		processes[i] = transport.Process{Ranks: []int{i}, Addr: listeners[i].Addr().String(), Host: "here"}
	}
	var wait sync.WaitGroup
	var errs [2]error
	for i := range eps {
		wait.Go(func() {
			joined, err := transport.Join(transport.NetOptions{Env: e, Generation: 1, Secret: []byte("forecast"), Processes: processes, Self: i,
				Listener: listeners[i], Heartbeat: quietHeartbeat, Timeout: joinTimeout, SharedMemory: shared, Secure: secure})
			if errs[i] = err; err == nil {
				eps[i] = joined[0]
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return eps, err
		}
	}
	return eps, nil
}
