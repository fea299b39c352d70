package transport

import (
	"errors"
	"time"
)

// How an engine and its transfers end. MPI does not report that a process is lost.

// cancelLink cancels the transfers of a link that has failed. MPI itself may never end
// them.
func (e *mpiEngine) cancelLink(l *link) {
	if l.cancelled {
		return
	}
	l.cancelled = true
	for slot := range e.transfers {
		p := &e.transfers[slot]
		switch {
		case p.link != l:
		case p.kind == bulkIn:
			_ = e.comm.Cancel(slot)
		case p.kind == bulkOut: // its memory is only read
			l.frameWritten(&p.frame, errHungUp)
			p.kind = packetOut
			p.link.packets, p.link.bulks = p.link.packets+1, p.link.bulks-1
		}
	}
}

// failAll ends all links, because MPI no longer works.
func (e *mpiEngine) failAll(err error) {
	for _, l := range e.world.links {
		if l != nil {
			l.failWith(err)
		}
	}
	e.abandonTransfers(err)
}

// stopEngine ends serveLinks.
func (e *mpiEngine) stopEngine() {
	e.mon.Lock()
	e.ending = true
	e.mon.Wake()
	e.mon.Unlock()
	_ = e.stopped.Wait()
}

// endLimit is how long the engine waits, at the end, for transfers in progress.
const endLimit = 2 * time.Second

// drainTransfers cancels the receives of packets and waits for the other transfers.
func (e *mpiEngine) drainTransfers() {
	for _, slot := range e.awaited {
		_ = e.comm.Cancel(slot)
	}
	awaited := packetsAwaited - len(e.arrived)
	for until := e.env.Now() + endLimit; (awaited > 0 || e.pending > 0) && e.env.Now() < until; {
		var err error
		if e.done, err = e.comm.Poll(e.done[:0]); err != nil {
			e.abandonTransfers(err)
			return
		}
		for _, d := range e.done {
			if e.transfers[d.Slot].kind == packetIn {
				awaited--
				continue
			}
			e.finishTransfer(d)
		}
		if len(e.done) == 0 {
			e.env.Sleep(mpiNap)
		}
	}
	e.abandonTransfers(errors.New("MPI did not complete the transfer"))
}

// abandonTransfers ends the requests of transfers that MPI has not ended.
func (e *mpiEngine) abandonTransfers(err error) {
	for _, p := range e.transfers {
		switch p.kind {
		case bulkOut:
			p.link.frameWritten(&p.frame, err)
		case bulkIn:
			p.bulkArrived(err)
		}
	}
}
