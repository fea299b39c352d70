package report

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/ecrec/ecrec/internal/event"
)

// EventLog writes the events of a run to events.jsonl, metrics.jsonl and the log of the writing
// process.
type EventLog struct {
	events  *event.Writer
	metrics io.Writer
	log     *zerolog.Logger
	owned   []*lineFile // closed with the log
}

// eventLine is an event in metrics.jsonl, whose other lines have a loss and no event.
type eventLine struct {
	Step  int64           `json:"step"`
	Event json.RawMessage `json:"event"`
}

// Events opens the log of events of a run that Begin has begun.
func (r *Run) Events() (*EventLog, error) {
	w, err := event.OpenWriter(r.path(event.File))
	if err != nil {
		return nil, &outputError{r.dir, "job.out", err}
	}
	return &EventLog{events: w, metrics: r.metrics, log: &r.log}, nil
}

// ReopenEvents opens the log of events of a run that has ended. process is the number of the process
// to whose log it writes.
func ReopenEvents(dir string, process int) (*EventLog, error) {
	metrics := filepath.Join(dir, unfinished, metricsFile)
	if !exists(metrics) {
		metrics = filepath.Join(dir, metricsFile)
	}
	l := &EventLog{}
	for _, path := range []string{metrics, filepath.Join(dir, logName(process))} {
		f, err := openLines(path)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.owned = append(l.owned, f)
	}
	var err error
	if l.events, err = event.OpenWriter(filepath.Join(dir, event.File)); err != nil {
		l.Close()
		return nil, err
	}
	log := zerolog.New(l.owned[1]).With().Timestamp().Int("process", process).Logger()
	l.metrics, l.log = l.owned[0], &log
	return l, nil
}

// Write writes an event to all three files. After an error in one it still writes the others. Frequent
// events are in events.jsonl alone.
func (l *EventLog) Write(e event.Event) error {
	if e.Event.IsFrequent() {
		return l.events.Write(e)
	}
	line, err := event.Line(e)
	if err != nil {
		return err
	}
	line = line[:len(line)-1]
	text, err := json.Marshal(eventLine{e.Step, line})
	if err != nil {
		return err
	}
	_, err = l.metrics.Write(append(text, '\n'))
	l.log.Info().RawJSON("event", line).Msg(string(e.Event))
	return errors.Join(l.events.Write(e), err)
}

// Log returns the log of the writing process.
func (l *EventLog) Log() *zerolog.Logger { return l.log }

// Close closes the files that the log has opened.
func (l *EventLog) Close() error {
	var err error
	if l.events != nil {
		err = l.events.Close()
	}
	for _, f := range l.owned {
		err = errors.Join(err, f.Close())
	}
	return err
}
