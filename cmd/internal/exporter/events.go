package exporter

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/regular"
)

// eventTail counts the events of events.jsonl. It reads the lines appended since its last read. The
// counts survive the loss of the process that hosted rank 0.
type eventTail struct {
	path string

	mu sync.Mutex
	at int64 // bytes of the file that have been read
	eventCounts
}

// eventCounts counts the events of the newest run, including the runs that it resumed.
type eventCounts struct {
	losses          map[event.Cause]int
	recoveries      int
	saves, failures int
	save            event.Event // the newest checkpoint
	eval            event.Event // the newest evaluation
	spares          int         // according to the newest event with spares
}

// maxRead is how many bytes of the file are read at a time.
const maxRead = 1 << 20

// readNew counts the events appended since the last call.
func (t *eventTail) readNew() {
	f, err := regular.Open(t.path)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == t.at {
		return
	} else if info.Size() < t.at { // the file has been replaced
		t.at, t.eventCounts = 0, eventCounts{spares: t.spares}
	}
	text := make([]byte, maxRead)
	for {
		n, err := f.ReadAt(text, t.at)
		complete := bytes.LastIndexByte(text[:n], '\n') + 1
		all, _ := event.Read(bytes.NewReader(text[:complete]))
		for _, e := range all {
			t.countEvent(e)
		}
		t.at += int64(complete)
		if complete == 0 || err != nil && !errors.Is(err, io.EOF) || n < len(text) {
			return
		}
	}
}

// countEvent counts an event.
func (c *eventCounts) countEvent(e event.Event) {
	if e.Spares != nil {
		c.spares = *e.Spares
	}
	switch e.Event {
	case event.Start: // earlier events are of another run
		*c = eventCounts{spares: c.spares}
	case event.Loss:
		if c.losses == nil {
			c.losses = map[event.Cause]int{}
		}
		c.losses[e.CauseCode.Known()]++
	case event.Recovered:
		c.recoveries++
	case event.Checkpoint:
		c.saves, c.save = c.saves+1, e
	case event.CheckpointFailed:
		c.failures++
	case event.Eval:
		c.eval = e
	}
}

// sendCounts sends the counts as metrics, those of losses only for runs with a code.
func (t *eventTail) sendCounts(to sink, coded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readNew()
	if coded {
		for _, c := range event.Causes { // also 0: Prometheus computes an increase only from an existing value
			to.sendValue(figLosses, float64(t.losses[c]), string(c))
		}
		to.sendValue(figRecoveries, float64(t.recoveries))
		to.sendValue(figSpares, float64(t.spares))
	}
	to.sendValue(figSaves, float64(t.saves), "ok")
	to.sendValue(figSaves, float64(t.failures), "failed")
	if t.saves > 0 {
		to.sendValue(figSaveStep, float64(t.save.Step))
		to.sendValue(figSaveTime, float64(t.save.Time.UnixNano())/float64(time.Second))
	}
	if t.eval.Event == "" {
		return
	}
	to.sendValue(figEvalStep, float64(t.eval.Step))
	if t.eval.LogLoss != nil {
		to.sendValue(figLogloss, *t.eval.LogLoss)
	}
	if t.eval.AUC != nil {
		to.sendValue(figAUC, *t.eval.AUC)
	}
}
