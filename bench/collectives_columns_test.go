package bench

import (
	"bytes"
	"math"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// The tables, to the letter: scripts that read nccl-tests' or OSU's read them too.
func TestColumnsOfCollectives(t *testing.T) {
	for _, c := range []struct{ columns, mpi, want string }{{"nccl", "", ncclTable}, {"nccl", "an MPI", ncclBesideMPI},
		{"osu", "", osuTable}, {"both", "", ncclTable + osuTable}} {
		var out bytes.Buffer
		b := &collectivesRun{out: &out, options: Options{Repeats: 3}, ranks: 4, report: &Report{MPI: c.mpi}}
		b.cases = []collectiveCase{{operations[0], 4096}, {operations[0], 1 << 20}, {operations[1], 4096}}
		b.columns = columnsOf(c.columns)
		l := b.newLane("tcp", "4 processes", nil)
		for i, us := range []float64{20, 1000, 10} {
			for repeat := range 3 {
				us := us + float64(repeat-1) // the median of the repeats is that of the second
				l.found[i].addRepeat(b.cases[i], b.ranks, timing{us: us, mean: us - 2, least: us - 3, most: us - 1, p50: us - 1.5, wrong: repeat * i})
				if c.mpi != "" {
					l.found[i].addBeside(us / 2)
				}
			}
		}
		b.printTables(l)
		if want := "\ntcp, 4 processes, medians of 3\n" + c.want; out.String() != want {
			t.Errorf("columns=%s: %s\nwant %s", c.columns, &out, want)
		}
	}
}

const ncclTable = `                   size     count     type  redop    time  algbw  busbw  #wrong
                      B  elements                      us   GB/s   GB/s        
    all_reduce     4096      1024  float32    sum    20.0   0.20   0.31       0
    all_reduce  1048576    262144  float32    sum  1000.0   1.05   1.57       2
  all_to_all_v     4096      4096    uint8   none    10.0   0.41   0.31       4
`

// The columns after those of nccl-tests are ours.
const ncclBesideMPI = `                   size     count     type  redop    time  algbw  busbw  #wrong    mpi  ratio                        interval
                      B  elements                      us   GB/s   GB/s             us                                       
    all_reduce     4096      1024  float32    sum    20.0   0.20   0.31       0   10.0   2.00  2.00 to 2.00, 3 pairs: too few
    all_reduce  1048576    262144  float32    sum  1000.0   1.05   1.57       2  500.0   2.00  2.00 to 2.00, 3 pairs: too few
  all_to_all_v     4096      4096    uint8   none    10.0   0.41   0.31       4    5.0   2.00  2.00 to 2.00, 3 pairs: too few
`

const osuTable = `
# all_reduce
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)   P50 Latency(us)  Iterations
4096                   18.00             17.00             19.00             18.50        1400
1048576               998.00            997.00            999.00            998.50         896

# all_to_all_v
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)   P50 Latency(us)  Iterations
4096                    8.00              7.00              9.00              8.50        1400
`

// The factors of nccl-tests' PERFORMANCE.md.
func TestBandwidthsOfCollectives(t *testing.T) {
	for _, op := range operations {
		want := map[string]float64{"all_reduce": 1.5, "all_to_all_v": 0.75, "all_gather_v": 0.75, "broadcast": 1}[op.name]
		algbw, busbw := collectiveCase{op, 8000}.bandwidths(4, 2)
		if algbw != 4 || busbw != 4*want {
			t.Errorf("%s: algbw %v, busbw %v; want 4 and %v", op.name, algbw, busbw, 4*want)
		}
	}
}

// The time of a case is computed from the rounds of all ranks.
func TestTimingOfRanks(t *testing.T) {
	r := &collectivesRank{all: kernels.HostBuffer(make([]float64, 2*collectiveWords)), ep: transport.NewMem(env.Real(), 2, 1)[0]}
	all := kernels.HostView[float64](r.all)
	for i := range collectiveRounds {
		all[i] = 1e-6 * float64(i+1)                 // 1 to 7 us
		all[collectiveWords+i] = 1e-6 * float64(9-i) // 9 to 3
	}
	all[collectiveRounds], all[collectiveWords+collectiveRounds] = 3, 4
	got, err := r.summarize()
	want := timing{us: 7, mean: 5, least: 4, most: 6, p50: 5, wrong: 7}
	for _, x := range [][2]float64{{got.us, want.us}, {got.mean, want.mean}, {got.least, want.least}, {got.most, want.most},
		{got.p50, want.p50}} {
		if err != nil || math.Abs(x[0]-x[1]) > 1e-9 || got.wrong != want.wrong {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
}
