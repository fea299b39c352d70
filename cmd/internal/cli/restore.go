package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/stream/kafka"
	"github.com/ecrec/ecrec/train"
)

// Resuming from a topic: the process with rank 0 follows it into a folder below job.out, and all ranks resume from the checkpoint there.

// source is a value of --resume that names a topic.
type source struct {
	topic string // as in stream.to
	at    int64  // a step, or follow.Newest
}

// parseSource parses a value of --resume. It reports whether it names a topic: file:DIR[@STEP] or kafka://HOST:PORT/TOPIC[@STEP], where
// options may precede or follow the step.
func parseSource(text string) (s source, ok bool, err error) {
	if !strings.HasPrefix(text, "file:") && !strings.HasPrefix(text, kafka.Scheme) {
		return s, false, nil
	}
	s = source{text, follow.Newest}
	name, query, hasQuery := strings.Cut(text, "?")
	if strings.HasPrefix(text, "file:") {
		name, query, hasQuery = text, "", false
	}
	step := ""
	if i := strings.LastIndexByte(name, '@'); i > strings.LastIndexByte(name, '/') {
		name, step = name[:i], name[i+1:]
	} else if i := strings.LastIndexByte(query, '@'); i >= 0 {
		query, step = query[:i], query[i+1:]
	} else {
		return s, true, config.CheckTopic(text)
	}
	if s.at, err = strconv.ParseInt(step, 10, 64); err != nil || s.at < 0 {
		return s, true, fmt.Errorf("@%s is not a step", step)
	}
	if s.topic = name; hasQuery {
		s.topic += "?" + query
	}
	return s, true, config.CheckTopic(s.topic)
}

// ranksOf is how many ranks the run has that writes to the topic.
func (s source) ranksOf(e env.Env) (int, error) {
	t, err := openTopic(e, s.topic)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	n, err := t.Partitions()
	if err == nil && n == 0 {
		err = errors.New("the topic does not exist")
	}
	return n, err
}

// restoredFolder is the folder, in job.out, of checkpoints that are made of a topic.
const restoredFolder = "restored"

// restoring returns how a run resumes from a topic; nil if --resume names none.
func (c *trainCmd) restoring(s *session) *train.Restoring {
	from, ok, err := parseSource(c.Resume)
	if !ok || err != nil { // err was reported before
		return nil
	}
	dir := filepath.Join(s.cfg.Job.Out, restoredFolder)
	return &train.Restoring{Dir: dir, Make: func(check func(checkpoint.Model) error) (train.Restored, error) {
		r := restorer{source: from, env: s.env, dir: dir, check: check, stop: s.app.stop.isRequested, show: s.console.printLine}
		return r.restore()
	}}
}

// restorer makes a checkpoint of a topic.
type restorer struct {
	source
	env   env.Env
	dir   string
	check func(checkpoint.Model) error
	stop  func() bool
	show  func(format string, args ...any)

	shown time.Duration // when the last line was shown
}

// restore makes the checkpoint. It extends the checkpoint of the topic in the folder, and begins with an empty folder if
// that does not lead to the step.
func (r *restorer) restore() (x train.Restored, err error) {
	t, err := openTopic(r.env, r.topic)
	if err != nil {
		return x, err
	}
	defer t.Close()
	x.Source, _, _ = strings.Cut(r.topic, "?") // options are not part of the name
	if r.at >= 0 {
		if x.Path = follow.Saved(r.dir, t, r.at); x.Path != "" {
			if _, err := checkpoint.Open(r.env, x.Path); err == nil {
				return x, nil
			}
		}
	}
	r.show("restoring the model of %s in %s", x.Source, r.dir)
	x.Path, err = r.follow(t, follow.Options{At: r.at})
	if again := new(again); errors.As(err, &again) && !r.stop() {
		x.Path, err = r.follow(t, follow.Options{At: r.at, Anew: true})
	}
	if none := new(follow.Unproved); errors.As(err, &none) && none.Right >= 0 {
		r.show("%v: restoring that one", none)
		x.Path, err = r.follow(t, follow.Options{At: none.Right, Anew: true})
	}
	return x, err
}

// again is the error of a folder that does not lead to the step.
type again struct{ error }

func (r *restorer) follow(t stream.Topic, o follow.Options) (path string, err error) {
	o.Env, o.Topic, o.Dir, o.ToEnd, o.Full, o.Keep, o.Every = r.env, t, r.dir, true, true, 1, 1<<62
	o.Check, o.Stop, o.Report = r.check, r.stop, r.showProgress
	o.Warn = func(text string) { r.show("warning: %s", text) }
	f, err := follow.Open(o)
	if errors.As(err, new(*follow.OtherTopic)) {
		return "", &again{err}
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	began := f.Step() >= 0 && !f.FromBase()
	switch err = f.Run(); {
	case err != nil && began && !errors.As(err, new(*follow.Unproved)) && !errors.As(err, new(*stream.Silent)):
		return "", &again{err}
	case err != nil:
		return "", err
	case r.stop() && f.Step() != r.at:
		return "", errors.New("stopped before the model of the topic was restored; the same --resume continues it")
	}
	return f.Path(), nil
}

// showEvery is the least time between two lines about a restoration.
const showEvery = 10 * time.Second

func (r *restorer) showProgress(p follow.Progress) {
	if now := r.env.Now(); p.Path == "" && (r.shown == 0 || now-r.shown >= showEvery) {
		if r.shown > 0 {
			r.show("restoring: step %s, %s", report.Thousands(p.Step), report.Count(p.Touched, "row"))
		}
		r.shown = now
	}
}
