package hook

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/ecrec/ecrec/internal/event"
)

const (
	maxQueued      = 64
	maxOutputBytes = 4 << 10
	// drainLimit is how long the log waits for the output of children that a command leaves behind.
	drainLimit = time.Second
)

// CloseLimit returns how long Close may wait in a run that a signal has stopped, or that has ended by itself. A run waits up to two
// times: for the commands of the events before its end, and for that of the end.
func CloseLimit(stopped bool) time.Duration {
	if stopped {
		return 20 * time.Second // twice that is less than the grace of the scripts and manifests that ecrec writes
	}
	return time.Minute
}

// Events lists the events for which the command is run.
var Events = []event.Name{event.Loss, event.Recovered, event.Checkpoint, event.CheckpointFailed, event.End, event.Failed}

// Hooks runs a command for events. A nil *Hooks runs none.
type Hooks struct {
	argv  []string
	dir   string
	limit time.Duration
	log   zerolog.Logger
	queue chan event.Event
	done  chan struct{}
	stop  context.CancelFunc
}

// New returns Hooks that run argv in dir, nil if argv is empty.
func New(argv []string, dir string, log zerolog.Logger) *Hooks {
	if len(argv) == 0 {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	h := &Hooks{argv: argv, dir: dir, limit: time.Minute, log: log,
		queue: make(chan event.Event, maxQueued), done: make(chan struct{}), stop: stop}
	go func() {
		defer close(h.done)
		runtime.LockOSThread() // commands end with this thread
		for e := range h.queue {
			h.runCommand(ctx, e)
		}
	}()
	return h
}

// Add queues the command for an event, if the event is among Events. It does not wait.
func (h *Hooks) Add(e event.Event) {
	if h == nil || !wanted(e.Event) {
		return
	}
	select {
	case h.queue <- e:
	default:
		h.log.Warn().Str("event", string(e.Event)).Msg("on_event skipped: too many events are queued")
	}
}

func wanted(n event.Name) bool {
	for _, w := range Events {
		if w == n {
			return true
		}
	}
	return false
}

// Close waits until the command has run for all queued events, and kills a command that exceeds the
// limit. Add must not be called after it.
func (h *Hooks) Close(limit time.Duration) {
	if h == nil {
		return
	}
	close(h.queue)
	timer := time.AfterFunc(limit, h.stop)
	<-h.done
	timer.Stop()
	h.stop()
}

func (h *Hooks) runCommand(ctx context.Context, e event.Event) {
	line, err := event.Line(e)
	if err == nil {
		err = ctx.Err()
	}
	var text string
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, h.limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, h.argv[0], h.argv[1:]...)
		cmd.Dir, cmd.Stdin = h.dir, bytes.NewReader(line)
		cmd.Env = append(os.Environ(), "ECREC_EVENT="+string(e.Event))
		cmd.SysProcAttr = attributes()
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = drainLimit
		if text, err = runLogged(cmd); ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	entry := h.log.Info()
	if err != nil {
		entry = h.log.Warn().Err(err)
	}
	entry.Str("event", string(e.Event)).Str("output", strings.TrimSpace(text)).Msg("on_event")
}

// runLogged runs a command, and returns the beginning of its output. A child that the command leaves in the background may write until the
// run ends.
func runLogged(cmd *exec.Cmd) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	out, read := &output{}, make(chan struct{})
	go func() {
		defer close(read)
		defer r.Close()
		_, _ = io.Copy(out, r) // to its end
	}()
	if err == nil {
		err = cmd.Wait()
	}
	select {
	case <-read:
	case <-time.After(drainLimit):
	}
	return out.String(), err
}

// output keeps the beginning of a command's output.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p[:min(len(p), maxOutputBytes-o.text.Len())])
	return len(p), nil
}
