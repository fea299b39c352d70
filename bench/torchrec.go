package bench

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// The systems of the benchmark.
const (
	sysTorchRec = "torchrec"
	sysPooled   = "pooled"
)

var torchRecBench = Bench{
	Name: "torchrec",
	Doc:  "bytes and time of TorchRec's exchange of rows, beside its imitation pooled",
	Detail: "Two systems take turns with the same ids and no layers. torchrec: PyTorch's processes, one for each rank, with TorchRec's " +
		"tables over gloo. pooled: the system of bench exchange that stands for it, with all ranks in one process. Both use loopback " +
		"connections and one thread for each rank. Bytes are those that all ranks send to others in a step: vectors with their gradients, " +
		"and ids. TorchRec's are counted at torch.distributed, those of pooled are planned. TorchRec runs without its pipeline, which would " +
		"send the next step's ids meanwhile; pooled sends them so, and does not count them. Of large tables only the rows that the steps use " +
		"are in memory.",
	Settings: []Setting{
		number("ranks", "2", 2, 64, "number of ranks").orTiny("3"),
		number("batch", "16384", 1, maxSamples, "samples of a step, over all ranks").orTiny("48"),
		number("dim", "48", 4, 1<<12, "floats of a row, a multiple of 4"),
		choice("tables", "criteo-kaggle", tableNames, "rows of the tables"),
		number("steps", "20", 1, 10_000, "steps that are timed in a turn").orTiny("2"),
		number("warmup", "5", 1, 10_000, "steps before them").orTiny("1"),
		number("seed", "1", 0, maxSteps, "seed of the ids of the first turn; each turn has the next one"),
		pythonSetting("torch and torchrec"),
		dirSetting,
	},
	measure: runTorchRec,
}

// torchRecScript runs the ranks of TorchRec.
//
//go:embed peers/exchange.py
var torchRecScript []byte

// exchangeTime is the result of a turn of a system: ms of a step, and bytes that all ranks send in one.
type exchangeTime struct{ step, vectors, ids float64 }

func runTorchRec(out io.Writer, o Options) (*Report, error) {
	c, err := o.torchRecSettings()
	if err != nil {
		return nil, err
	}
	python, err := o.findPython()
	if err != nil {
		return nil, err
	}
	version, why := o.findModule(python, "torchrec")
	device, turn := "", 0
	names, results, err := runTurns(o, o.repeats(), func(run func(string, func() (exchangeTime, error))) {
		c.seed = uint64(o.number("seed") + turn)
		turn++
		var d *exchangeData
		run(sysPooled, func() (x exchangeTime, err error) {
			if d, err = drawExchangeData(c, c.seed); err != nil {
				return x, err
			}
			var s exchangeSample
			s, device, err = measureExchange(c, sysPooled, d)
			return exchangeTime{step: 1e3 * s.Step.Seconds(), vectors: float64(s.Total.Critical.Bytes + s.Total.Delayed.Bytes)}, err
		})
		if why == "" {
			run(sysTorchRec, func() (exchangeTime, error) { return o.runTorchRecTurn(python, c, d.skipSteps(c.lookahead)) })
		}
	})
	if err != nil {
		return nil, err
	}
	r := o.newReport(device)
	if why != "" {
		r.addMissing(sysTorchRec, why)
	} else {
		r.Against = "torchrec " + version
	}
	r.writeHeader(out)
	return r, r.writeTorchRec(out, names, results)
}

// torchRecSettings are those of an exchange without layers over loopback connections.
func (o Options) torchRecSettings() (*exchangeSettings, error) {
	c := &exchangeSettings{model: exchangeModel{name: "torchrec", width: o.number("dim")}, stream: burstStream, batch: o.number("batch"),
		ranks: o.number("ranks"), steps: o.number("steps"), warmup: o.number("warmup"), lookahead: 1, onLoopback: true}
	var err error
	if c.tables, err = streamTables(o.text("tables"), o.Tiny); err != nil {
		return nil, settingError("tables=%s: %v", o.text("tables"), err)
	}
	if c.model.width%4 != 0 {
		return nil, settingError("dim=%d: TorchRec's rows are multiples of 4 floats", c.model.width)
	}
	if c.batch < c.ranks {
		return nil, settingError("batch=%d: want at least 1 sample for each of the %d ranks", c.batch, c.ranks)
	}
	return c, nil
}

// runTorchRecTurn trains the steps of the data with TorchRec. The time of a step is the mean of the timed ones.
func (o Options) runTorchRecTurn(python string, c *exchangeSettings, d *exchangeData) (x exchangeTime, err error) {
	dir, err := o.tempDir()
	if err != nil {
		return x, err
	}
	defer os.RemoveAll(dir)
	script, ids := filepath.Join(dir, "exchange.py"), filepath.Join(dir, "ids.bin")
	if err := os.WriteFile(script, torchRecScript, 0o600); err != nil {
		return x, err
	}
	if err := os.WriteFile(ids, d.idsOfSteps(c.trained()), 0o600); err != nil {
		return x, err
	}
	tables, err := json.Marshal(d.tables)
	if err != nil {
		return x, err
	}
	runtime.LockOSThread() // endWithParent ends the child with this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(python, script, "--ids", ids, "--tables", string(tables), "--dim", strconv.Itoa(c.model.width), "--batch",
		strconv.Itoa(c.batch), "--ranks", strconv.Itoa(c.ranks), "--warmup", strconv.Itoa(c.warmup), "--dir", dir)
	cmd.SysProcAttr = endWithParent()
	var got, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &got, &errs
	if err := o.runCommand(cmd); err != nil {
		text := strings.TrimSpace(errs.String())
		return x, fmt.Errorf("bench: torchrec: %w: %s", err, text[max(0, len(text)-2000):])
	}
	lines := bytes.Split(bytes.TrimSpace(got.Bytes()), []byte("\n"))
	var reply struct {
		Seconds      []float64
		Vectors, IDs float64
	}
	if err := json.Unmarshal(lines[len(lines)-1], &reply); err != nil {
		return x, fmt.Errorf("bench: torchrec: %w", err)
	}
	if len(reply.Seconds) != c.steps {
		return x, fmt.Errorf("bench: torchrec: %d steps were timed, want %d", len(reply.Seconds), c.steps)
	}
	sum := 0.0
	for _, s := range reply.Seconds {
		sum += s
	}
	return exchangeTime{1e3 * sum / float64(c.steps), reply.Vectors, reply.IDs}, nil
}

// idsOfSteps returns the ids of the first steps, by step, sample and table, as little-endian words of 4 bytes.
func (d *exchangeData) idsOfSteps(steps int) (text []byte) {
	f := len(d.tables)
	for p := range int64(steps * d.batch) {
		i := d.sampleAt(p)
		for _, id := range d.ids[i*f : (i+1)*f] {
			text = binary.LittleEndian.AppendUint32(text, id)
		}
	}
	return text
}

// writeTorchRec reports each system, and TorchRec over pooled.
func (r *Report) writeTorchRec(out io.Writer, names []string, results [][]exchangeTime) error {
	t := table(out)
	fmt.Fprint(t, "system\tms per step\tleast\tgreatest\tMB of vectors\tMB of ids\t\n")
	values := make([]struct{ step, vectors, ids []float64 }, len(names))
	for _, turn := range results {
		for i, x := range turn {
			v := &values[i]
			v.step, v.vectors, v.ids = append(v.step, x.step), append(v.vectors, x.vectors), append(v.ids, x.ids)
		}
	}
	for i, name := range names {
		first := len(r.Figures)
		step := r.addFigure("step", "ms", values[i].step...)
		vectors := r.addAs(Counted, "vectors", "bytes/step", values[i].vectors...)
		ids := "not counted"
		if name == sysTorchRec {
			ids = fmt.Sprintf("%.2f", r.addAs(Counted, "ids", "bytes/step", values[i].ids...).Median/1e6)
		}
		r.setCase(first, map[string]string{"system": name, "ranks": r.Settings["ranks"]})
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", name, step.Median, step.Min, step.Max, vectors.Median/1e6, ids)
	}
	if err := t.Flush(); err != nil || len(names) < 2 {
		return err
	}
	first := len(r.Figures)
	ratio := r.addRatio("step, over pooled", values[1].step, values[0].step)
	r.setCase(first, map[string]string{"system": sysTorchRec, "ranks": r.Settings["ranks"]})
	_, err := fmt.Fprintf(out, "\na step of TorchRec takes %.2f times as long as one of pooled, %s\n", ratio.Median, ratio.betweenText(2))
	return err
}
