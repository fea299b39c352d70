package bench

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// lane is a transport that takes its turns with others, as a rank measures it.
type lane struct {
	name, where string
	rank        *collectivesRank
	openMPI     *openMPI  // runs beside it; nil: nothing does
	bare        *bareRing // likewise, of all ranks
	found       []measured
}

// measured holds the measurements of a case, a value for each repeat.
type measured struct {
	us, algbw, busbw, wrong []float64
	mean, least, most, p50  []float64 // us, see timing
	beside                  []float64 // us of the same over MPI or a bare connection; nil: not measured
}

func (b *collectivesRun) newLane(name, where string, r *collectivesRank) *lane {
	return &lane{name: name, where: where, rank: r, found: make([]measured, len(b.cases))}
}

// betweenProcesses measures transports between processes; process 0 prints.
func (b *collectivesRun) betweenProcesses(names []string) error {
	w := b.options.World
	if w.MPI == "" && w.OneHost && w.Size <= runtime.NumCPU() { // as Open MPI's ranks are
		var err error
		if b.core, err = env.Bind(w.Rank); err != nil {
			return err
		}
		defer b.core.Undo()
	}
	memory, err := newCollectivesMemory(b.mostBytes())
	if err != nil {
		return err
	}
	defer memory.freeBuffers()
	var lanes []*lane
	for _, name := range names {
		ep, err := w.Join(name)
		if err != nil {
			return err
		}
		r := newCollectivesRank(env.Real(), ep, memory, w.Stop)
		defer r.leaveJob()
		l := b.newLane(name, fmt.Sprintf("%d processes", b.ranks), r)
		if name == "mpi" {
			l.where += ", " + w.MPI
			b.report.MPI = w.MPI
		}
		if name == "shm" && w.MPI == "" && w.Rank == 0 {
			l.openMPI = b.newOpenMPI()
			if l.openMPI != nil {
				defer l.openMPI.removeFolder()
			}
		}
		if name == "tcp" && w.MPI == "" {
			if l.bare, err = joinRing(r, w.Host); err != nil {
				return err
			}
			defer l.bare.closeRing()
		}
		lanes = append(lanes, l)
	}
	if err := b.timeTurns(lanes); err != nil || w.Rank > 0 {
		return err
	}
	for _, l := range lanes {
		b.printTables(l)
	}
	return nil
}

// newOpenMPI returns the Open MPI to measure in turn with shm, nil if there is none.
func (b *collectivesRun) newOpenMPI() *openMPI {
	m, err := newOpenMPI(b.ranks)
	if err == nil && !b.options.World.OneHost {
		m.removeFolder()
		err = errors.New("the processes are on several hosts")
	}
	if err != nil {
		b.printWithout(err)
		return nil
	}
	return m
}

// printWithout prints why Open MPI is not measured.
func (b *collectivesRun) printWithout(why error) {
	fmt.Fprintf(b.out, "\nOpen MPI is not measured beside shm: %v\n", why)
}

// withinProcess measures ranks that are goroutines of this process.
func (b *collectivesRun) withinProcess() error {
	e := env.Real()
	eps := transport.NewMem(e, b.ranks, 1)
	stop := func() bool { return false }
	if w := b.options.World; w != nil {
		stop = w.Stop
	}
	lanes, errs, ended := make([]*lane, b.ranks), make([]error, b.ranks), make(chan struct{})
	for i, ep := range eps {
		go func() {
			defer func() { ended <- struct{}{} }()
			memory, err := newCollectivesMemory(b.mostBytes())
			if err != nil {
				errs[i] = errors.Join(err, ep.Close()) // the others lose it
				return
			}
			defer memory.freeBuffers()
			r := newCollectivesRank(e, ep, memory, stop)
			defer r.leaveJob()
			lanes[i] = b.newLane("mem", fmt.Sprintf("%d ranks of one process", b.ranks), r)
			errs[i] = b.timeTurns(lanes[i : i+1])
		}()
	}
	for range eps {
		<-ended
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.printTables(lanes[0])
	return nil
}

// timeTurns times all cases over each transport in turn. All ranks measure; rank 0 uses the results.
func (b *collectivesRun) timeTurns(lanes []*lane) error {
	for turn := range b.options.repeats() {
		b.options.setDone(turn, b.options.repeats(), "turns")
		for _, l := range lanes {
			if err := b.measureOnce(l); err != nil {
				return err
			}
			if first := lanes[0]; first.name == "mpi" && l != first {
				l.compareWith(first)
			}
		}
	}
	for _, l := range lanes {
		if l.openMPI != nil {
			b.report.Against = l.openMPI.version
		}
		if err := l.rank.comm.Barrier().Wait(); err != nil { // no rank closes while others need it
			return err
		}
	}
	return nil
}

// measureOnce times all cases over a transport once, and then those of Open MPI.
func (b *collectivesRun) measureOnce(l *lane) error {
	for i, c := range b.cases {
		t, err := l.rank.timeCase(c)
		if err != nil {
			return err
		}
		l.found[i].addRepeat(c, b.ranks, t)
		if l.bare != nil {
			us, err := l.rank.timeBare(c, l.bare)
			if err != nil {
				return err
			}
			l.found[i].addBeside(us)
		}
	}
	if l.openMPI == nil {
		return nil
	}
	var theirs []float64
	var err error
	b.core.Without(func() { theirs, err = l.openMPI.timeCases(b.cases) })
	if err != nil {
		b.printWithout(err)
		l.openMPI = nil
	}
	for i := range l.found {
		if m := &l.found[i]; l.openMPI == nil {
			m.beside = nil
		} else {
			m.addBeside(theirs[i])
		}
	}
	return nil
}

// compareWith compares a turn with that of the transport mpi.
func (l *lane) compareWith(mpi *lane) {
	for i := range l.found {
		theirs := mpi.found[i].us
		l.found[i].addBeside(theirs[len(theirs)-1])
	}
}

// addRepeat adds the measurement of a repeat.
func (m *measured) addRepeat(c collectiveCase, ranks int, t timing) {
	algbw, busbw := c.bandwidths(ranks, t.us)
	m.us, m.algbw, m.busbw, m.wrong = append(m.us, t.us), append(m.algbw, algbw), append(m.busbw, busbw), append(m.wrong, float64(t.wrong))
	m.mean, m.least, m.most, m.p50 = append(m.mean, t.mean), append(m.least, t.least), append(m.most, t.most), append(m.p50, t.p50)
}

// addBeside adds the time of the same case over MPI or a bare connection in the newest repeat.
func (m *measured) addBeside(us float64) {
	m.beside = append(m.beside, us)
}

// besideName is the name of the times beside those of a lane.
func (l *lane) besideName() string {
	if l.bare != nil {
		return "bare"
	}
	return "mpi"
}
