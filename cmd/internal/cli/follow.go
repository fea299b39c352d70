package cli

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/stream/kafka"
)

type followCmd struct {
	Source string        `arg:"" help:"The topic, as in stream.to: kafka://HOST:PORT/TOPIC, or file:DIR."`
	To     string        `required:"" complete:"dir" placeholder:"DIR" help:"Folder of the checkpoints. A follower that was there before goes on."`
	At     string        `default:"latest" placeholder:"STEP|latest" help:"End with a full checkpoint of this step. latest: follow until a signal ends it."`
	Every  time.Duration `default:"10s" help:"Least time between two checkpoints."`
	Keep   int           `default:"2" placeholder:"N" help:"How many checkpoints to keep, beside the parents that increments among them need. 0: all."`
	Full   bool          `help:"Save each checkpoint as a full one, not as an increment of the one before."`
	Trim   bool          `help:"Remove the part of the topic that is older than the oldest checkpoint. Another follower then begins with a copy of the folder."`
}

// Run keeps a model up to date with a stream.
func (c *followCmd) Run(a *app) error {
	at := int64(follow.Latest)
	if c.At != "latest" {
		var err error
		if at, err = strconv.ParseInt(c.At, 10, 64); err != nil || at < 0 {
			return errUsage(fmt.Sprintf("--at: %q is neither a step nor latest", c.At))
		}
	}
	if c.Keep < 0 {
		return errUsage("--keep: use 0 or more")
	}
	if err := config.CheckTopic(c.Source); err != nil {
		return errUsage(err.Error())
	}
	e := env.Real()
	topic, err := openTopic(e, c.Source)
	if err != nil {
		return fmt.Errorf("follow: %s: %w", c.Source, err)
	}
	defer topic.Close()
	f, err := follow.Open(follow.Options{Env: e, Topic: topic, Dir: c.To, At: at, Every: c.Every, Full: c.Full, Keep: c.Keep, Trim: c.Trim,
		Stop: a.stop.isRequested, Report: func(p follow.Progress) { showProgress(a, p) },
		Warn: func(text string) { report.Line(a.out, "warning: %s", text) }})
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	defer f.Close()
	if step := f.Step(); step >= 0 {
		report.Line(a.out, "%s: step %s is here, from %s on", c.To, report.Thousands(step), topic.Name())
	} else {
		report.Line(a.out, "%s: from the beginning of %s", c.To, topic.Name())
	}
	if err := f.Run(); err != nil {
		return fmt.Errorf("follow: %s: %w", topic.Name(), err)
	}
	return nil
}

// showProgress prints a line for a cut, or for a checkpoint.
func showProgress(a *app, p follow.Progress) {
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
