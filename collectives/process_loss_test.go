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

// TestLostProcess kills and stops a process of three in the middle of each
// operation, at random moments: the others get PeerLost of its rank within the
// bound, and go on to say so.
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
	// Processes share two cores with other tests: what the bound promises, and as
	// much again.
	limit := 5*peerHeartbeat + time.Second
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
		t.Fatal("the other survivor says nothing")
	}
	var at int64
	said := peers[0].out.Text()
	_, _ = fmt.Sscan(said, &at)
	if took := time.Unix(0, at).Sub(struck); took > limit || !strings.Contains(said, fmt.Sprintf("rank %d of generation 7 is lost", victim)) {
		t.Errorf("%+v: the other survivor says %q after %v, limit %v", o, said, took, limit)
	}
	if shared {
		nothingIn(t, "/dev/shm")
	}
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "ecrec") {
			t.Errorf("%s/%s is left", dir, e.Name())
		}
	}
}

// TestStalledProcessGoesOn stops a process for less than the bound: the others
// wait for it, and nothing is lost.
func TestStalledProcessGoesOn(t *testing.T) {
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
					t.Errorf("a peer says %q", p.out.Text())
				}
			}
		})
	}
}
