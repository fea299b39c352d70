package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/baseline/protection"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/transport"
)

var protectionBench = Bench{
	Name: "protection",
	Doc:  "throughput with a code, checkpoints, or ECRec's commits, by size of the model",
	Detail: "Links, computing and the rate of the store are emulated. A checkpoint is a real save of all rows, state and dense part: " +
		"training stops " +
		"for the longer of the save and of the bytes of its rows at the rate of the store. Blocks of steps take turns, each after one without " +
		"protection. A block with a checkpoint lasts for the time between two. All rows count as written before, so each checkpoint has all " +
		"of them. Checkpoints are measured in the job of the first code. Windows of throughput are those of the blocks of a system, end to end.",
	Evidence: Simulated,
	Settings: []Setting{
		sizesSetting("Original,2S,4S,8S").orTiny("Original,8S"),
		scaleSetting,
		lawSetting,
		Setting{Name: "systems", Default: "k2,k4,ckpt-30,ckpt-60", Allowed: oneOf(guardNames()) + "; several, separated by commas",
			Doc: "what protects rows: our code, checkpoints every 30 or 60 minutes / scale, ECRec's commits", check: areGuards}.
			orTiny("k2,k4,ckpt-30,ckpt-60,like,like-nocopies,like-bare"),
		numbers("every", "10", 1, 1<<20, "steps between commits of our code").orTiny("2"),
		number("ranks", "5", 2, 64, "number of ranks"),
		number("batch", "2048", 1, maxSamples, "samples of a step, for each rank").orTiny("16"),
		text("link", "10Gb/s,50us", "as --link", "link of each rank").orTiny("10Gb/s,1us"),
		text("compute", "30ms", "a duration", "forward and backward of a step").orTiny("1ms"),
		number("store", "1500", 0, 1<<20, "MB/s of the store of checkpoints; 0: the disk as it is"),
		choice("timeline", "8S", append(ecrecSizeNames(), "none"), "size whose throughput is also given by windows"),
		modeSetting,
		threadsSetting,
		dirSetting,
	},
	measure: runProtection,
}

// guard is one system: a way to protect rows.
type guard struct {
	setting string // its name there
	system  string // its name in reports
	k       int
	minutes int                 // between two checkpoints; 0: it saves none
	like    *protection.Variant // of ECRec's commits
}

var guards = []guard{
	{setting: "k2", system: "ours", k: 2},
	{setting: "k4", system: "ours", k: 4},
	{setting: "ckpt-30", system: "ckpt-full", minutes: 30},
	{setting: "ckpt-60", system: "ckpt-full", minutes: 60},
	{setting: "like", system: "ecrec-like", k: 4, like: &protection.Variant{TwoPhase: true, Copies: true}},
	{setting: "like-nocopies", system: "ecrec-like", k: 4, like: &protection.Variant{TwoPhase: true}},
	{setting: "like-bare", system: "ecrec-like", k: 4, like: &protection.Variant{}},
}

func guardNames() (names []string) {
	for _, g := range guards {
		names = append(names, g.setting)
	}
	return names
}

func areGuards(value string) bool {
	return !slices.ContainsFunc(strings.Split(value, ","), func(s string) bool { return !slices.Contains(guardNames(), s) })
}

// caseOf is the case of a system's figures.
func (g guard) caseOf(size string, every int) map[string]string {
	c := map[string]string{"size": size, "system": g.system}
	if g.k > 0 {
		c["k"] = strconv.Itoa(g.k)
	}
	switch {
	case g.minutes > 0:
		c["minutes"] = strconv.Itoa(g.minutes)
	case g.like != nil:
		c["two_phase"], c["copies"] = strconv.FormatBool(g.like.TwoPhase), strconv.FormatBool(g.like.Copies)
	case g.k > 0:
		c["every"] = strconv.Itoa(every)
	}
	return c
}

// noGuard is training without protection, with which each system is compared.
var noGuard = guard{system: "noft"}

// guardJob is a job, and the systems that it can measure.
type guardJob struct {
	k, every int // k = 0: no code
	like     bool
	guards   []guard
}

// guardJobs returns the jobs that measure all systems of the settings. Checkpoints share the first job.
func guardJobs(o Options) (jobs []guardJob) {
	var saves []guard
	add := func(j guardJob, g guard) {
		if i := slices.IndexFunc(jobs, func(x guardJob) bool { return x.k == j.k && x.every == j.every && x.like == j.like }); i >= 0 {
			jobs[i].guards = append(jobs[i].guards, g)
			return
		}
		j.guards = []guard{g}
		jobs = append(jobs, j)
	}
	for _, name := range strings.Split(o.text("systems"), ",") {
		g := guards[slices.Index(guardNames(), name)]
		switch {
		case g.minutes > 0:
			saves = append(saves, g)
		case g.like != nil:
			add(guardJob{k: g.k, every: 1, like: true}, g)
		default:
			for _, every := range o.numbers("every") {
				add(guardJob{k: g.k, every: every}, g)
			}
		}
	}
	for _, g := range saves {
		if len(jobs) == 0 {
			jobs = append(jobs, guardJob{every: 1})
		}
		jobs[0].guards = append(jobs[0].guards, g)
	}
	return jobs
}

// protectionRun is one run of the benchmark.
type protectionRun struct {
	out     io.Writer
	o       Options
	link    transport.EmulatedLink
	compute time.Duration
	scale   int
	ranks   int
	windows map[string]time.Duration // of throughput over time, by size
	report  *Report
}

func runProtection(out io.Writer, o Options) (*Report, error) {
	b := &protectionRun{out: out, o: o, windows: map[string]time.Duration{}, scale: o.number("scale"), ranks: o.number("ranks")}
	link, compute, err := o.linkAndCompute()
	if err != nil {
		return nil, err
	}
	if link == nil || compute == 0 {
		return nil, settingError("link=%s compute=%s: want a link and a duration", o.text("link"), o.text("compute"))
	}
	b.link, b.compute = *link, compute
	sizes, jobs := o.ecrecSizesOf(), guardJobs(o)
	for _, j := range jobs {
		if j.k == 0 {
			continue
		}
		if _, err := ec.NewLayout(b.ranks, j.k, 1); err != nil {
			return nil, settingError("ranks=%d: %v", b.ranks, err)
		}
	}
	for n, z := range sizes {
		for i, j := range jobs {
			o.setDone(n*len(jobs)+i, len(sizes)*len(jobs), "jobs")
			o.mustRun()
			if err := b.measureJob(z, j); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", z.name, j.guards[0].setting, err)
			}
		}
	}
	return b.report, nil
}

// interval is the time between two checkpoints, given in minutes of the paper.
func (b *protectionRun) interval(minutes int) time.Duration {
	return time.Duration(minutes) * time.Minute / time.Duration(b.scale)
}
