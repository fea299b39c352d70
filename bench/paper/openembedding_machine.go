package paper

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/bench"
)

// openEmbeddingMachine is the machine's memory and disk (O, tab. I), and the requests of a server over time (O, fig. 2).
func openEmbeddingMachine() []Drawing {
	return []Drawing{
		{ID: "O-tab1", Runs: memoryRuns, Draw: drawMemory},
		{ID: "O2", Runs: requestRuns, Draw: drawRequests},
	}
}

func memoryRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "memory"}}
	case Quick:
		return []Run{{Bench: "memory", Args: []string{"mib=128"}, Repeats: 2}}
	}
	return []Run{{Bench: "memory", Args: []string{"mib=1024"}}}
}

// drawMemory draws rates and latencies of each medium.
func drawMemory(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, medium := range []string{"DRAM", "page cache", "disk"} {
		s := Series{System: medium}
		for i, q := range []struct{ label, name, op, order, unit string }{
			{"read", "rate", "read", "sequential", ""}, {"write", "rate", "write", "sequential", ""},
			{"latency of a read", "latency", "read", "random", "ns"}, {"latency of a write", "latency", "write", "random", "ns"},
		} {
			p, kind, err := point(r, float64(i), q.label, q.name, "medium", medium, "op", q.op, "order", q.order)
			if medium == "disk" && err != nil {
				f.Notes = append(f.Notes, "The disk has no line: its file system has no O_DIRECT here.")
				break
			}
			if err != nil {
				return err
			}
			p.Unit = q.unit
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		if len(s.Points) > 0 {
			f.Series = append(f.Series, s)
		}
	}
	f.Checks = []Check{
		below("a random read of DRAM is faster than one of the page cache", f.atLabel("DRAM", "latency of a read"), f.atLabel("page cache",
			"latency of a read")),
	}
	if f.series("disk") != nil {
		f.Checks = append(f.Checks,
			below("a random read of the page cache is faster than one of the disk", f.atLabel("page cache", "latency of a read"),
				f.atLabel("disk", "latency of a read")),
			above("DRAM reads more GB/s than the disk", f.atLabel("DRAM", "read"), f.atLabel("disk", "read")))
	}
	f.Params = []Param{{"DRAM", "a server's channels, all cores", fmt.Sprintf("all %d cores of this machine", r.Machine.Cores)},
		{"slow memory", "Optane PMem", "the page cache and the disk of this machine: it has no persistent memory"},
		{"access", "not stated", "memory 8 bytes, files 4 KiB; sequential 1 MiB"}}
	f.Notes = append(f.Notes, "The stand-in for PMem in the figures of stores is a file in the page cache: its read costs more than PMem's "+
		"305 ns, since a system call is part of it. "+
		"That makes our Ori-Cache and PMem-Hash weaker.", "Writes to DRAM at random places overlap, so their time is less than a round trip "+
		"to memory.")
	return nil
}

func requestRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "requests"}}
	case Quick:
		return []Run{{Bench: "requests", Args: []string{"batch=512", "steps=30"}, Repeats: 1}}
	}
	return []Run{{Bench: "requests", Args: []string{"batch=2048", "trainers=4", "steps=60"}}}
}

// drawRequests draws the rows of each millisecond.
func drawRequests(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	modes := []string{"none", "planned"}
	for _, mode := range modes {
		for _, rows := range []string{"requested", "updated"} {
			s, err := line(r, mode+", "+rows, "rows in a ms", "ms", "mode", mode, "rows", rows)
			if err != nil {
				return err
			}
			f.Series = append(f.Series, s)
		}
	}
	f.Y = Axis{Name: "rows", Unit: "1/ms"}
	value := func(mode, rows, name string) Point {
		p, _, err := point(r, 0, "", name, "mode", mode, "rows", rows)
		if err != nil {
			return Point{}
		}
		return p
	}
	f.Checks = []Check{
		above("planned rows are requested in more of the time", value("planned", "requested", "time with rows"), value("none", "requested",
			"time with rows")),
		above("planned rows are updated in more of the time", value("planned", "updated", "time with rows"), value("none", "updated", "time "+
			"with rows")),
	}
	for _, mode := range modes {
		step := value(mode, "requested", "step")
		f.Params = append(f.Params, Param{"two steps of " + mode, "about 58 ms: bursts at 2, 16, 31 and 45 ms", number(2*step.Y) + " ms"})
	}
	f.Params = slices.Concat(f.Params, []Param{{"store", "not named", "all rows in memory on one rank"},
		{"links", "30 Gb/s", "30 Gb/s, 50 us, emulated"}, {"forward and backward", "GPU", "a wait"}})
	f.Notes = append(f.Notes, "none is OpenEmbedding's own order: pull, compute, update. planned moves the rows that the next step does "+
		"not need while a step computes.")
	return nil
}
