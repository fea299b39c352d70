package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Progress is how far a run is. Its methods may be called while the benchmark runs, on any goroutine, and for a nil Progress.
type Progress struct {
	mutex   sync.Mutex
	text    string // "3 of 15 turns"
	report  *Report
	folders []string
	cut     bool // the figures are those of the turns before a stop
	load    *Load
}

// String returns the finished part of the run: "after 3 of 15 turns". It is empty if nothing is finished.
func (p *Progress) String() string {
	if p == nil {
		return ""
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.text == "" {
		return ""
	}
	return "after " + p.text
}

// RemoveFolders removes the temporary folders of the run. It is for a caller that ends the process before Run returns.
func (p *Progress) RemoveFolders() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var errs []error
	for _, dir := range p.folders {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// withLock does something with the lock held.
func (p *Progress) withLock(f func()) {
	if p != nil {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		f()
	}
}

func (p *Progress) addFolder(dir string) { p.withLock(func() { p.folders = append(p.folders, dir) }) }
func (p *Progress) setReport(r *Report)  { p.withLock(func() { p.report = r }) }
func (p *Progress) setText(done string)  { p.withLock(func() { p.text = done }) }
func (p *Progress) setCut()              { p.withLock(func() { p.cut = true }) }
func (o Options) isStopped() bool        { return o.Stop != nil && o.Stop() }
func (o Options) setDone(n, all int, unit string) {
	o.Progress.setText(fmt.Sprintf("%d of %d %s", n, all, unit))
}

// stopping is the panic that unwinds to Run when a stop is requested and no figure can be computed.
type stopping struct{}

// mustRun unwinds to Run if a stop is requested. Only the goroutine of Run calls it.
func (o Options) mustRun() {
	if o.isStopped() {
		panic(stopping{})
	}
}

// moreTurns reports whether another turn follows after some of all. It is false at the end, and when a stop is requested: the
// figures are then those of the turns that are done. If none is, it unwinds to Run.
func (o Options) moreTurns(done, all int) bool {
	o.setDone(done, all, "turns")
	if done == 0 {
		o.mustRun()
	}
	if done < all && o.isStopped() {
		o.Progress.setCut()
		return false
	}
	return done < all
}

// endsTurns reports whether no further turn follows after some of all, because a stop is requested: the report has those.
// Any goroutine may call it.
func (o Options) endsTurns(done, all int) bool {
	o.setDone(done, all, "turns")
	if !o.isStopped() {
		return false
	}
	o.Progress.setCut()
	return true
}

// Run measures. It returns an error that is ErrSetting if an argument is not one of the
// benchmark's settings, or has a value that is not allowed. It returns one that is ErrStopped, and the report of the finished part
// or nil, if Options.Stop ended it early.
func (b Bench) Run(out io.Writer, o Options) (*Report, error) {
	o, err := b.options(o)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	o.Progress.load = startLoad(o.World)
	r, err := b.measureOrStop(out, o)
	if r == nil {
		return nil, err
	}
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Evidence == "" {
			f.Evidence = Measured
			if b.Evidence != "" {
				f.Evidence = b.Evidence
			}
		}
	}
	r.Bars = judge(b.Bars, r)
	if o.World == nil || o.World.Rank == 0 {
		r.Load.endLoad(o.World)
		r.Load.writeLoad(out)
	}
	return r, err
}

// measureOrStop measures, and returns the finished part when a stop was requested.
func (b Bench) measureOrStop(out io.Writer, o Options) (r *Report, err error) {
	defer func() {
		p := recover()
		_, unwound := p.(stopping)
		if p != nil && !unwound {
			panic(p)
		}
		stopped := unwound || o.Progress.cut || errors.Is(err, ErrStopped) || err != nil && o.isStopped() && !errors.Is(err, ErrSetting)
		if !stopped {
			return
		}
		err = fmt.Errorf("%w %v", ErrStopped, o.Progress)
		if o.Progress.String() == "" {
			err = ErrStopped
		}
		if r = o.Progress.report; r != nil && len(r.Figures) == 0 {
			r = nil
		}
		if r != nil {
			r.Incomplete = o.Progress.text
		}
	}()
	return b.measure(out, o)
}
