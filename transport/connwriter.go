package transport

const (
	// batchFrames is the number of frames written in one call.
	batchFrames = 16
	// batchBytes is the length of their payloads from which no more frames are added: the
	// connection would be idle while their checksums are computed, and the first bytes
	// would have left the core's cache.
	batchBytes = 256 << 10
)

// connWriter writes a link's frames to its connection. One goroutine at a time has the
// turn: writeLoop, or a goroutine in flushShort that finds it free. The latter writes short
// frames at once, without the wake-up of another goroutine. It never waits for the network:
// writeLoop writes the bytes that the connection does not take at once, and the pieces of
// long messages.
type connWriter struct {
	link   *link
	taken  bool               // the turn; guarded by the link's monitor, as are late and over
	late   bool               // there are bytes that the connection did not take at once
	over   bool               // nothing more is written
	conn   *promptConn        // the turn writes to it
	frames [batchFrames]frame // guarded by the turn, as are the fields below
	n      int                // of frames
	parts  [2 * batchFrames][]byte
}

// flushShort writes short frames, unless another goroutine has the turn and so will look
// for them. The caller does not hold the link's monitor.
func (w *connWriter) flushShort() {
	l := w.link
	l.mon.Lock()
	if w.taken || w.over || l.err != nil || l.queued.Load() == 0 {
		l.mon.Unlock()
		return
	}
	if l.world.polling.shared || !w.conn.canBePrompt() || w.late || !l.hasShortFrame() {
		l.mon.Wake() // for writeLoop
		l.mon.Unlock()
		return
	}
	w.taken = true
	l.mon.Unlock()

	w.takeFrames(true)
	w.conn.prompt = true
	err := w.writeFrames()
	w.conn.prompt = false
	w.endTurn(err)
}

// writeLoop writes frames, as many as possible at a time, until the link is over.
func (w *connWriter) writeLoop() {
	for w.awaitTurn() {
		w.takeFrames(false)
		w.endTurn(w.link.world.env.Do("write to a process", w.writeFrames))
	}
	w.link.hangUpWrites()
}

// awaitTurn takes the turn when there is something to write. It reports false when nothing
// more is written.
func (w *connWriter) awaitTurn() bool {
	l := w.link
	l.mon.Lock()
	defer l.mon.Unlock()
	for l.err == nil && !w.over && (w.taken || !w.hasWork() && !l.closing) {
		l.mon.Wait()
	}
	if l.err != nil || w.over || !w.hasWork() {
		w.over = true
		return false
	}
	w.taken = true
	return true
}

// hasWork reports whether there is something to write. The caller holds the link's monitor.
func (w *connWriter) hasWork() bool { return w.late || w.link.queued.Load() > 0 }

// endTurn ends the use of the memory of the frames that were taken, and the turn. err, if
// not nil, means that they could not be written.
func (w *connWriter) endTurn(err error) {
	l := w.link
	for i := range w.frames[:w.n] {
		l.frameWritten(&w.frames[i], err)
	}
	if err != nil {
		// The peer may have sent the reason before it ended: give readLoop time to
		// receive it.
		_ = l.conn.SetReadDeadline(l.world.env.Deadline(l.world.heartbeat))
	}
	l.mon.Lock()
	w.taken, w.late, w.over = false, len(w.conn.rest) > 0, w.over || err != nil
	if w.hasWork() || w.over || l.closing {
		l.mon.Wake() // for writeLoop
	}
	l.mon.Unlock()
}

// takeFrames takes the next frames to write, or only short ones.
func (w *connWriter) takeFrames(short bool) {
	bytes := 0
	for w.n = 0; w.n < batchFrames && bytes < batchBytes && w.link.nextFrame(&w.frames[w.n], short); w.n++ {
		bytes += len(w.frames[w.n].payload)
	}
}

// writeFrames writes the frames that were taken.
func (w *connWriter) writeFrames() error {
	if err := w.conn.writeRest(); err != nil {
		return err
	}
	parts := w.parts[:0]
	for i := range w.frames[:w.n] {
		f := &w.frames[i]
		if parts = append(parts, f.head[:]); len(f.payload) > 0 {
			parts = append(parts, f.payload)
		}
	}
	if sealed := w.link.sealedConn(); sealed != nil {
		return sealed.WriteParts(parts...)
	}
	return w.conn.writeParts(parts)
}
