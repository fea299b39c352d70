package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
)

// Load describes the work of the machine while a benchmark ran. Shares are of the time of all cores. A nil field is unknown:
// this system does not report it, or the processes of the benchmark are on several machines.
type Load struct {
	Seconds      float64     `json:"seconds"`
	AverageStart *[3]float64 `json:"average_start,omitempty"` // of 1, 5 and 15 minutes
	AverageEnd   *[3]float64 `json:"average_end,omitempty"`
	// Own is the share of the benchmark's processes. Others is the rest of the busy time: other processes, and work of the
	// kernel that it charges to none. Kernel is the part of Others that threads of the kernel used, for example to write files back;
	// nil: they are not shown here.
	Own    *float64 `json:"own,omitempty"`
	Others *float64 `json:"others,omitempty"`
	Kernel *float64 `json:"kernel,omitempty"`
	Steal  *float64 `json:"steal,omitempty"` // the host of this virtual machine ran something else
	// TripStart and TripEnd are how long a cache line took between two cores and back, in nanoseconds: see coreRoundTrip.
	TripStart *float64 `json:"core_round_trip_start_ns,omitempty"`
	TripEnd   *float64 `json:"core_round_trip_end_ns,omitempty"`

	start loadMoment
}

// loadMoment is the state of the machine's counters.
type loadMoment struct {
	when  time.Time
	times machine.CPUTimes
	own   time.Duration
	known bool

	kernel      time.Duration
	knownKernel bool
}

// mostOthers is the share of the cores above which the work of others makes rates doubtful.
const mostOthers = 0.05

// Foreign is the share of the cores that processes of others used. ok is false if it is unknown. The kernel's own work may be a part
// of it where that is not shown.
func (l *Load) Foreign() (share float64, ok bool) {
	if l == nil || l.Others == nil {
		return 0, false
	}
	share = *l.Others
	if l.Kernel != nil {
		share = max(0, share-*l.Kernel)
	}
	return share, true
}

// IsBusy reports whether others, or the host of this virtual machine, used so much of the cores that rates are doubtful.
func (l *Load) IsBusy() bool {
	share, ok := l.Foreign()
	return ok && (share > mostOthers || l.Steal != nil && *l.Steal > mostOthers)
}

// readLoad reads the counters. Processes of a world on one machine have one parent, the launcher.
func readLoad(w *World) (m loadMoment) {
	m.when = time.Now()
	m.times, m.known = machine.ReadCPUTimes()
	m.kernel, m.knownKernel = machine.KernelTime()
	switch {
	case w == nil:
		m.own = machine.ProcessTime()
		if tree, ok := machine.TreeTime(os.Getpid()); ok { // with processes that still run
			m.own = max(m.own, tree)
		}
	case w.OneHost:
		var ok bool
		m.own, ok = machine.TreeTime(os.Getppid())
		m.known = m.known && ok
	default:
		m.known = false
	}
	return m
}

func readAverage() *[3]float64 {
	if a, ok := machine.ReadLoadAverage(); ok {
		return &a
	}
	return nil
}

// startLoad begins to observe the machine.
func startLoad(w *World) *Load {
	return &Load{AverageStart: readAverage(), TripStart: measureTrip(w), start: readLoad(w)}
}

// measureTrip measures between the cores of a benchmark of one process. Ranks would disturb each other.
func measureTrip(w *World) *float64 {
	if w != nil {
		return nil
	}
	trip, ok := coreRoundTrip()
	if !ok {
		return nil
	}
	ns := float64(trip.Nanoseconds())
	return &ns
}

// endLoad sets the load since the start.
func (l *Load) endLoad(w *World) {
	l.AverageEnd = readAverage()
	l.setShares(readLoad(w))
	l.TripEnd = measureTrip(w)
}

func (l *Load) setShares(now loadMoment) {
	from := l.start
	l.Seconds = now.when.Sub(from.when).Seconds()
	busy, steal := now.times.Busy-from.times.Busy, now.times.Steal-from.times.Steal
	all := busy + steal + now.times.Idle - from.times.Idle
	if !from.known || !now.known || all <= 0 {
		return
	}
	share := func(d time.Duration) *float64 {
		x := max(0, min(1, float64(d)/float64(all)))
		return &x
	}
	own := now.own - from.own
	l.Own, l.Others, l.Steal = share(own), share(busy-own), share(steal)
	if from.knownKernel && now.knownKernel {
		l.Kernel = share(min(busy-own, now.kernel-from.kernel))
	}
}

func averageText(a *[3]float64) string {
	if a == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f %.2f %.2f", a[0], a[1], a[2])
}

func (l *Load) startText() string {
	if l == nil {
		return "unknown"
	}
	return averageText(l.AverageStart)
}

// writeLoad writes the load, and a warning if others used much of the cores.
func (l *Load) writeLoad(out io.Writer) {
	fmt.Fprintf(out, "\n%.0f s, load average %s at the end; of all cores: ", l.Seconds, averageText(l.AverageEnd))
	defer l.writeTrips(out)
	if l.Others == nil {
		fmt.Fprintln(out, "unknown")
		return
	}
	fmt.Fprintf(out, "this benchmark %.1f %%, others %.1f %%, ", 100**l.Own, 100**l.Others)
	if l.Kernel != nil {
		fmt.Fprintf(out, "of which threads of the kernel %.1f %%, ", 100**l.Kernel)
	}
	fmt.Fprintf(out, "stolen by the host %.1f %%\n", 100**l.Steal)
	if l.IsBusy() {
		fmt.Fprintf(out, "warning: others and the host used more than %.0f %% of the cores: rates are too low; ratios of pairs suffer less\n",
			100*mostOthers)
	}
}

// writeTrips writes the times of a cache line between cores, unless both are unknown.
func (l *Load) writeTrips(out io.Writer) {
	if l.TripStart == nil && l.TripEnd == nil {
		return
	}
	text := func(ns *float64) string {
		if ns == nil {
			return "unknown"
		}
		return fmt.Sprintf("%.0f ns", *ns)
	}
	fmt.Fprintf(out, "a cache line between two cores and back: %s at the start, %s at the end\n", text(l.TripStart), text(l.TripEnd))
}
