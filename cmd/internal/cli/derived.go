package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/export"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/derive"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train/modelfile"
)

// derived are the outputs of a follower beside checkpoints: rows in a topic, and versions of a Triton model repository.
type derived struct {
	c     *followCmd
	app   *app
	env   env.Env
	topic stream.Topic // nil: no rows are sent
	rows  *derive.Rows
	added error // of the newest version; nil: it is there
}

// openDerived opens the outputs that the flags name, and adds them to the options of the follower.
func (c *followCmd) openDerived(a *app, e env.Env, o *follow.Options) (*derived, error) {
	d := &derived{c: c, app: a, env: e}
	if c.RowsTo != "" {
		if err := d.openRows(o); err != nil {
			return nil, err
		}
	}
	if c.Triton != "" {
		if name := filepath.Base(filepath.Clean(c.Triton)); strings.Trim(name, ".") == "" {
			d.closeTopic()
			return nil, errUsage("--triton: name the folder of the model, whose last part is the model's name, as in models/ctr")
		}
		if err := export.CheckTriton(c.Triton); err != nil {
			d.closeTopic()
			return nil, errUsage(fmt.Sprintf("--triton %s: %v", c.Triton, err))
		}
		inner := o.Report
		o.Report = func(p follow.Progress) {
			inner(p)
			if p.Path != "" {
				d.addVersion(p.Path)
			}
		}
	}
	return d, nil
}

// openRows opens the topic of --rows-to.
func (d *derived) openRows(o *follow.Options) error {
	c := d.c
	backlog, err := config.ParseSize(c.RowsBacklog)
	if err != nil || backlog == 0 {
		return errUsage(fmt.Sprintf("--rows-backlog: %q is no size above 0", c.RowsBacklog))
	}
	if err := config.CheckTopic(c.RowsTo); err != nil {
		return errUsage("--rows-to: " + err.Error())
	}
	if stream.IsSame(c.RowsTo, c.Source) {
		return errUsage(fmt.Sprintf("--rows-to: %s is the topic that is followed; rows need a topic of their own", c.RowsTo))
	}
	if d.topic, err = openTopic(d.env, c.RowsTo); err != nil {
		return fmt.Errorf("follow: --rows-to %s: %w", c.RowsTo, err)
	}
	warn := func(text string) { report.Line(d.app.out, "warning: %s", text) }
	d.rows, err = derive.New(derive.Options{Env: d.env, Topic: d.topic, As: derive.Encoding(c.RowsAs), Backlog: int64(backlog), Warn: warn,
		Report: func(m derive.Marker) { showRows(d.app, c.RowsTo, m) }})
	if err != nil {
		d.topic.Close()
		return fmt.Errorf("follow: --rows-to %s: %w", c.RowsTo, err)
	}
	inner := o.Publish
	o.Publish = func(v *follow.View) error {
		if inner != nil {
			if err := inner(v); err != nil {
				return err
			}
		}
		return d.rows.Publish(v)
	}
	o.Idle = d.rows.Idle
	return nil
}

// showRows prints a line for a marker that the topic of rows has.
func showRows(a *app, to string, m derive.Marker) {
	text := ""
	if m.As != derive.Float32 {
		text = fmt.Sprintf(", error at most %.2g, mean %.2g", m.MaxError, m.MeanError)
	}
	if m.Saturated > 0 {
		text += fmt.Sprintf("; %s beyond the largest number", report.Count(m.Saturated, "weight"))
	}
	report.Line(a.out, "step %s: %s to %s, %s%s", report.Thousands(m.Step), report.Count(m.Rows, "row"), to, m.As, text)
}

// addNewest adds the checkpoint that the follower begins with to the model repository, if it is not there.
func (d *derived) addNewest(f *follow.Follower) {
	if path := f.Path(); d.c.Triton != "" && path != "" {
		d.addVersion(path)
	}
}

// addVersion adds a checkpoint to the model repository. After an error the next one is tried.
func (d *derived) addVersion(path string) {
	began := time.Now()
	step, err := d.writeVersion(path)
	if d.added = err; err != nil {
		report.Line(d.app.out, "warning: %s: %v; the versions before it remain", d.c.Triton, err)
		return
	}
	took := time.Since(began).Round(time.Millisecond)
	report.Line(d.app.out, "step %s: version %d of %s, after %v", report.Thousands(step), step, d.c.Triton, took)
}

func (d *derived) writeVersion(path string) (step int64, err error) {
	ck, err := checkpoint.Open(d.env, path)
	if err != nil {
		return 0, err
	}
	from := exportCmd{Run_: path}
	recipe, err := from.findDataRecipe(ck)
	if err != nil {
		return 0, err
	}
	about := modelfile.DescribeRun(ck.Run, ck.Step, ck.Digest, recipe)
	m := export.Model{Metadata: about, Tensors: ck.Specs(), Write: ck.WriteTensors}
	if err := describeGraph(&m, path); err != nil {
		return 0, err
	}
	return ck.Step, export.AddTritonVersion(d.c.Triton, ck.Step, m, d.c.Keep)
}

// finishFor is how long the end of a follower waits for the topic of rows.
const finishFor = 10 * time.Second

// finishRows waits until the topic has the rows of the newest model. It returns the error of the newest version too.
func (d *derived) finishRows(f *follow.Follower) error {
	for began := time.Now(); d.rows != nil && !d.rows.Settled(); f.Offer() {
		if time.Since(began) > finishFor {
			report.Line(d.app.out, "warning: %s has not taken the rows of step %d within %v: the next follower sends them", d.c.RowsTo,
				f.Step(), finishFor)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if d.added != nil {
		return fmt.Errorf("--triton %s: %w", d.c.Triton, d.added)
	}
	return nil
}

// closeTopic ends the sending of rows.
func (d *derived) closeTopic() {
	if d.rows != nil {
		d.rows.Close()
		d.topic.Close()
	}
}
