package bench

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// updateTime is the time of updates on all ranks.
type updateTime struct{ ns atomic.Int64 }

func (u *updateTime) seconds() float64 { return time.Duration(u.ns.Load()).Seconds() }

// wrap returns a rank's stream, and times its updates. Updates in the background have other streams.
func (u *updateTime) wrap(_ int, s kernels.Stream) kernels.Stream { return &updating{s, u} }

type updating struct {
	kernels.Stream
	to *updateTime
}

func (s *updating) addSince(began time.Time) { s.to.ns.Add(int64(time.Since(began))) }

func (s *updating) UpdateRows(rule kernels.RowRule, rows kernels.Matrix, slots kernels.Buffer, grads kernels.Matrix, start,
	pos kernels.Buffer) {
	defer s.addSince(time.Now())
	s.Stream.UpdateRows(rule, rows, slots, grads, start, pos)
}

func (s *updating) UpdateDense(opt kernels.Optimizer, w, state, g kernels.Buffer) {
	defer s.addSince(time.Now())
	s.Stream.UpdateDense(opt, w, state, g)
}

// world connects the ranks by the settings transport and link.
func (b *continuousRun) world() *train.World {
	e, ranks := env.Real(), b.job.ranks
	return &train.World{Processes: 1, Neighbours: 1, Join: func([]int) (eps []transport.Endpoint, err error) {
		if b.o.text("transport") == "tcp" && ranks > 1 {
			eps, err = joinLoopback(ranks, transport.SecureOff)
		} else {
			eps = transport.NewMem(e, ranks, 1)
		}
		if b.link != nil {
			for i := range eps {
				eps[i] = transport.EmulateLink(e, eps[i], *b.link)
			}
		}
		return eps, err
	}}
}

// writeTables compares each job with the one of the same turn that saves full checkpoints as often, or most often.
func (b *continuousRun) writeTables(out io.Writer, r *Report, names []string, times [][]continuousTimes) error {
	every := len(b.o.numbers("every"))
	t := table(out)
	fmt.Fprintln(t, "\tseconds\tof the full ones as often\tinterval\tof none\tinterval\tCPU s\ts waiting for saves\tMB\tsteps lost\ts of "+
		"updates\ts of captures\t")
	for i, j := range b.jobs() {
		base := 1 // the first of the full ones
		if j.every > 0 && (j.system == "stream" || j.system == sysTorch) {
			base = 1 + (i-1)%every
		}
		var x struct{ seconds, full, none, cpu, saving, megabytes, lost, optimizer, captured, dense []float64 }
		for _, turn := range times {
			c := turn[i]
			x.seconds, x.cpu, x.saving = append(x.seconds, c.seconds), append(x.cpu, c.cpu), append(x.saving, c.saving)
			x.full, x.none = append(x.full, turn[base].seconds), append(x.none, turn[0].seconds)
			x.megabytes, x.lost = append(x.megabytes, c.megabytes), append(x.lost, c.lost)
			x.optimizer, x.captured, x.dense = append(x.optimizer, c.optimizer), append(x.captured, c.captured), append(x.dense, c.dense)
		}
		r.evidence = ""
		if j.slow || b.link != nil { // the slow store is a wait
			r.evidence = Simulated
		}
		first, compared := len(r.Figures), "\t"
		if j.system == "stream" || j.system == sysTorch {
			ratio := r.addRatio("of full", x.seconds, x.full)
			compared = fmt.Sprintf("%.3f\t%s", ratio.Median, ratio.betweenText(3))
		}
		ofNone := r.addRatio("of none", x.seconds, x.none)
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%.3f\t%s\t%.2f\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", names[i], r.addFigure("time", "s",
			x.seconds...).Median, compared,
			ofNone.Median, ofNone.betweenText(3), r.addFigure("CPU", "s", x.cpu...).Median,
			r.addFigure("saving", "s", x.saving...).Median, r.addAs(Counted, "bytes", "MB", x.megabytes...).Median,
			r.addAs(Counted, "lost", "steps", x.lost...).Median, r.addFigure("optimizer", "s", x.optimizer...).Median,
			r.addFigure("capture", "s", x.captured...).Median)
		r.addFigure("dense part", "s", x.dense...)
		r.setCase(first, b.settings(j))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(b.rebuild.followed) == 0 {
		return errors.New("bench: no model was loaded")
	}
	r.evidence = ""
	if b.link != nil { // a job that loads has its links
		r.evidence = Simulated
	}
	first := len(r.Figures)
	load := r.addFigure("load", "s", b.rebuild.loaded...).Median
	r.setCase(first, b.settings(continuousJob{system: "full"}))
	first = len(r.Figures)
	follow := r.addFigure("load", "s", b.rebuild.followed...).Median
	r.setCase(first, b.settings(continuousJob{system: "stream"}))
	if len(b.rebuild.torch) > 0 {
		r.evidence, first = "", len(r.Figures) // torch.load has no links
		seconds := r.addFigure("load", "s", b.rebuild.torch...).Median
		r.setCase(first, b.settings(continuousJob{system: sysTorch}))
		fmt.Fprintf(out, "\ntorch.load of the file of torch.save: %.2f s\n", seconds)
	}
	_, err := fmt.Fprintf(out, "\nthe last model again: %.2f s from a full checkpoint, %.2f s from the topic of all steps\n", load, follow)
	return err
}
