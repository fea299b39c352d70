package launcher

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
)

// A member that opens the rendezvous of a silent host does not wait for it: its heartbeats continue.
func TestReopeningDoesNotWait(t *testing.T) {
	secret := []byte("secret")
	p := place.Place{Process: 1, Processes: 3, Rendezvous: place.Rendezvous{Network: "file", Address: filepath.Join(t.TempDir(), "meet")}}
	silent, err := p.Open(nil, secret) // it accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	spec := &Spec{Ranks: 3, Elastic: true}
	c := newController(newLoop(), p, spec.shapeOf(p, false), defaultLimits(), spec, control.Member{Number: 1})
	c.openServer(secret)
	if c.endpoint, err = openEndpoint("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	defer c.endpoint.Close()
	c.job.Members[0].Lost, c.job.Voting = true, []int{1}
	c.maybeReopenRendezvous()
	if !c.reopening || c.rendezvous != nil {
		t.Fatal("it waited for the silent host")
	}
	c.maybeReopenRendezvous() // at the next heartbeat
	late := false
	defer time.AfterFunc(20*time.Second, func() { c.post(func() { late = true }) }).Stop()
	c.runUntil(func() bool { return late || c.rendezvous != nil }, c.wake, c.performDecisions)
	if late || c.reopening {
		t.Fatal("the rendezvous is not open")
	}
	c.rendezvous.Close()
	close(c.done)
}
