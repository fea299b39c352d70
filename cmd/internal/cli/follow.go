package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/serve"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/stream/kafka"
)

type followCmd struct {
	Source string        `arg:"" help:"The topic, as in stream.to: kafka://HOST:PORT/TOPIC, or file:DIR."`
	To     string        `required:"" complete:"dir" placeholder:"DIR" help:"Folder of the checkpoints. A follower that was there before continues."`
	At     string        `default:"latest" placeholder:"STEP|end|latest" help:"End with a full checkpoint of this step. end: of the newest one that the topic has now. latest: follow until a signal ends it."`
	Every  time.Duration `default:"10s" help:"Least time between two checkpoints."`
	Keep   int           `default:"2" placeholder:"N" help:"How many checkpoints to keep, beside the parents that increments among them need. 0: all."`
	Full   bool          `help:"Save each checkpoint as a full one, not as an increment of the one before."`
	Trim   bool          `help:"Write the model to TOPIC.base (of a folder: DIR/base) now and then, and remove the part of the topic before it. Other followers begin with it."`

	Serve        string        `placeholder:"HOST:PORT" help:"Answer HTTP and gRPC requests for predictions and rows on this address, with the newest model whose digest is right."`
	MaxStaleness time.Duration `placeholder:"DURATION" help:"With --serve: /readyz answers 503 once the marker that is served is older. Default: never."`

	RowsTo      string `placeholder:"TOPIC" help:"Send the weights of the rows that change to this topic, kafka://HOST:PORT/TOPIC or file:DIR, with a marker behind those of each step."`
	RowsAs      string `default:"float32" enum:"float32,float16,int8" placeholder:"ENCODING" help:"With --rows-to: float32, float16 or int8. Each marker has the error."`
	RowsBacklog string `default:"256MiB" placeholder:"SIZE" help:"With --rows-to: memory of rows that wait for a slow topic. Those that do not fit are merged."`

	Triton string `complete:"dir" placeholder:"DIR" help:"Add each checkpoint that is saved to this folder of a Triton model repository, as the version of its step. --keep versions remain."`
}

// Run keeps a model up to date with a stream.
func (c *followCmd) Run(a *app) error {
	at, err := parseAt(c.At)
	if err != nil {
		return err
	}
	if c.Keep < 0 {
		return errUsage("--keep: use 0 or more")
	}
	if c.MaxStaleness < 0 || c.MaxStaleness > 0 && c.Serve == "" {
		return errUsage("--max-staleness: use a duration above 0, with --serve")
	}
	if err := config.CheckTopic(c.Source); err != nil {
		return errUsage(err.Error())
	}
	e := env.Real()
	topic, err := c.openSource(a, e)
	if err != nil {
		return fmt.Errorf("follow: %s: %w", c.Source, err)
	}
	defer topic.Close()
	o := follow.Options{Env: e, Topic: topic, Dir: c.To, At: at, Every: c.Every, Full: c.Full, Keep: c.Keep, Trim: c.Trim,
		Session: newSession(), Stop: a.stop.isRequested, Report: func(p follow.Progress) { showProgress(a, p) },
		Warn: func(text string) { report.Line(a.out, "warning: %s", text) }}
	var server *serve.Server
	if c.Serve != "" {
		if server, err = serve.New(serve.Options{Addr: c.Serve, MaxStaleness: c.MaxStaleness}); err != nil {
			return errUsage(fmt.Sprintf("--serve %s: %v", c.Serve, err))
		}
		defer server.Close()
		o.Publish, o.Report = server.Publish, func(p follow.Progress) { server.Applied(p); showProgress(a, p) }
		report.Line(a.out, "serving on http://%s", server.Addr())
	}
	derived, err := c.openDerived(a, e, &o)
	if err != nil {
		return err
	}
	defer derived.closeTopic()
	f, err := follow.Open(o)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	defer f.Close()
	if step := f.Step(); step >= 0 && f.FromBase() {
		report.Line(a.out, "%s: from the base of step %s in %s", c.To, report.Thousands(step), topic.Base().Name())
	} else if step >= 0 {
		report.Line(a.out, "%s: step %s is here, from %s on", c.To, report.Thousands(step), topic.Name())
	} else {
		report.Line(a.out, "%s: from the beginning of %s", c.To, topic.Name())
	}
	derived.addNewest(f)
	if server != nil {
		err = serveUntilStop(a, f, server)
		err = errors.Join(err, server.Close())
	} else {
		err = f.Run()
	}
	if err == nil {
		err = derived.finishRows(f)
	}
	if err != nil {
		return fmt.Errorf("follow: %s: %w", topic.Name(), err)
	}
	if at != follow.Latest && !f.Reached() {
		return c.stopped(f)
	}
	return nil
}

// openSource opens the topic to follow. If its broker cannot be reached, a server that has a model begins with it, and the topic is opened
// when it is read.
func (c *followCmd) openSource(a *app, e env.Env) (stream.Topic, error) {
	topic, err := openTopic(e, c.Source)
	if c.Serve == "" || !errors.As(err, new(*kafka.Unreachable)) || !follow.HasModel(c.To) {
		return topic, err
	}
	report.Line(a.out, "warning: %v; the newest model of %s is served meanwhile", err, c.To)
	return kafka.New(e, c.Source)
}

// stopped is the error of a follower that a signal ended before the step of --at.
func (c *followCmd) stopped(f *follow.Follower) error {
	where := "before its first model"
	if step := f.Step(); step >= 0 {
		where = "at step " + report.Thousands(step)
	}
	return fmt.Errorf("follow: %w %s, before --at %s; the same command continues", errStopped, where, c.At)
}

// parseAt parses the value of --at.
func parseAt(text string) (int64, error) {
	switch text {
	case "latest":
		return follow.Latest, nil
	case "end":
		return follow.Newest, nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || at < 0 {
		return 0, errUsage(fmt.Sprintf("--at: %q is neither a step, nor end, nor latest", text))
	}
	return at, nil
}

// retryEvery is how long a server waits before it reads a topic again that it cannot read.
const retryEvery = 5 * time.Second

// serveUntilStop follows the topic until a stop is requested, or up to the step where the follower ends. If the topic cannot be
// read, it is tried again. After another error the server answers with the last model that was right.
func serveUntilStop(a *app, f *follow.Follower, server *serve.Server) error {
	for !a.stop.isRequested() {
		err := f.Run()
		var gap *stream.Gap
		var trimmed *stream.Trimmed
		switch unreadable := new(follow.Unreadable); {
		case err == nil:
			return nil
		case errors.As(err, &unreadable) && !errors.As(err, &gap) && !errors.As(err, &trimmed):
			served := "no model is served yet"
			if step := f.Step(); step >= 0 {
				served = "step " + report.Thousands(step) + " is served"
			}
			report.Line(a.out, "warning: %v; it is tried again every %v, and %s", err, retryEvery, served)
			waitForStop(a, retryEvery)
		default:
			server.Fail(err)
			report.Line(a.out, "warning: %v; the last model that was right is served until a signal ends the server", err)
			for !a.stop.isRequested() {
				waitForStop(a, time.Minute)
			}
			return err
		}
	}
	return nil
}

// waitForStop waits for some time, or until a stop is requested.
func waitForStop(a *app, most time.Duration) {
	for began := time.Now(); !a.stop.isRequested() && time.Since(began) < most; {
		time.Sleep(100 * time.Millisecond)
	}
}

// showProgress prints a line for a cut, a checkpoint or a base.
func showProgress(a *app, p follow.Progress) {
	if p.Base != "" {
		report.Line(a.out, "step %s: base written to %s, %s", report.Thousands(p.Step), p.Base, report.Count(p.Touched, "row"))
		return
	}
	if p.Path != "" {
		report.Line(a.out, "step %s: saved %s, digest %s", report.Thousands(p.Step), p.Path, p.Digest)
		return
	}
	extra := ""
	if p.Digest == "" {
		extra = ", without a digest of the run"
	} else {
		extra = ", digest equal"
	}
	if p.Written > 0 {
		extra += fmt.Sprintf(", %v after it was written", time.Since(time.UnixMilli(p.Written)).Round(time.Millisecond))
	}
	if p.Merged > 0 {
		extra += fmt.Sprintf(", %s before it skipped", report.Count(int64(p.Merged), "commit"))
	}
	report.Line(a.out, "step %s: %s%s", report.Thousands(p.Step), report.Count(int64(p.Rows), "row"), extra)
}

// openTopic opens the topic that stream.to names.
func openTopic(e env.Env, to string) (stream.Topic, error) {
	if dir, ok := strings.CutPrefix(to, "file:"); ok {
		return stream.OpenFolder(e, dir), nil
	}
	return kafka.Open(e, to)
}

// openSamples opens a topic of samples, as data.train names it.
func openSamples(e env.Env, from string) (stream.Topic, error) {
	if dir, ok := strings.CutPrefix(from, "file:"); ok {
		return stream.OpenFolder(e, dir), nil
	}
	return kafka.OpenSamples(e, from)
}

// newSession is the session of this process in streams.
func newSession() uint64 { return rand.Uint64() }
