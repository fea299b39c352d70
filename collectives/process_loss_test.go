package collectives_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/transport"
)

// TestLostProcess kills or stops a process of three at random moments of each operation.
// The others get PeerLost of its rank within the time limit.
func TestLostProcess(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	moments := 2
	if testing.Short() {
		moments = 1
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		for _, shared := range []bool{false, true} {
			for _, name := range []string{"AllReduce", "AllToAllV", "AllGatherV", "Broadcast", "Barrier"} {
				for moment := range moments {
					bytes := 12 << r.IntN(19)
					after := time.Duration(r.IntN(5000)) * time.Microsecond
					t.Run(fmt.Sprintf("%v/shared=%v/%s/%d", signal, shared, name, moment), func(t *testing.T) {
						t.Parallel()
						checkLostProcess(t, signal, shared, peerOperation{Name: name, Bytes: bytes, Times: 1 << 30}, after)
					})
				}
			}
		}
	}
}

func checkLostProcess(t *testing.T, signal syscall.Signal, shared bool, o peerOperation, after time.Duration) {
	peers, survivor := startPeers(t, 3, shared, 1)
	const victim = 1
	for _, p := range peers {
		if err := p.in.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	begun := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- survivor.run(o, o.Times, func(i int) {
			if i == 2 {
				close(begun)
			}
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		t.Fatalf("before the loss: %v", err)
	}
	time.Sleep(after)
	if err := peers[victim].cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	struck := time.Now()
	// The processes share the cores with other tests. The limit is therefore the
	// documented bound, five times that if their own heartbeats are late, plus a second.
	limit := 5*5*peerHeartbeat + time.Second
	if signal == syscall.SIGKILL {
		limit = time.Second
	}
	var err error
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%+v hangs", o)
	}
	if took := time.Since(struck); took > limit {
		t.Errorf("%+v: the loss was seen after %v, limit %v", o, took, limit)
	}
	var lost *transport.PeerLost
	if !errors.As(err, &lost) || lost.Rank != victim {
		t.Errorf("%+v: got %v, want PeerLost of rank %d", o, err, victim)
	}
	if !peers[0].out.Scan() {
		t.Fatal("the other survivor reports nothing")
	}
	var at int64
	said := peers[0].out.Text()
	_, _ = fmt.Sscan(said, &at)
	if took := time.Unix(0, at).Sub(struck); took > limit || !strings.Contains(said, fmt.Sprintf("rank %d of generation 7 is lost", victim)) {
		t.Errorf("%+v: the other survivor reports %q after %v, limit %v", o, said, took, limit)
	}
	if shared {
		checkEmpty(t, "/dev/shm")
	}
}

func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	var left []string
	// Concurrent tests have segments there for a moment each. Wait for a moment without
	// any.
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		left = left[:0]
		for _, e := range entries {
			if strings.Contains(e.Name(), "ecrec") {
				left = append(left, e.Name())
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("%s: %v were not removed", dir, left)
}

// TestStalledProcessContinues stops a process for less than the time limit. The others wait
// for it, and nothing is lost.
func TestStalledProcessContinues(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			peers, r := startPeers(t, 3, shared, 1)
			o := peerOperation{Name: "AllToAllV", Bytes: 3 << 20, Times: 60}
			for _, p := range peers {
				if err := p.in.Encode(o); err != nil {
					t.Fatal(err)
				}
			}
			signal := func(s syscall.Signal) {
				if err := peers[0].cmd.Process.Signal(s); err != nil {
					t.Error(err)
				}
			}
			if err := r.run(o, o.Times, func(i int) {
				if i == 20 {
					signal(syscall.SIGSTOP)
					time.AfterFunc(2*peerHeartbeat, func() { signal(syscall.SIGCONT) })
				}
			}); err != nil {
				t.Fatal(err)
			}
			for _, p := range peers {
				if p.out.Scan(); !strings.HasSuffix(p.out.Text(), "<nil>") {
					t.Errorf("a peer reports %q", p.out.Text())
				}
			}
		})
	}
}
