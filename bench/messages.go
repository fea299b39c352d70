package bench

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/stream"
)

var messagesBench = Bench{
	Name: "messages",
	Doc:  "time to serialise changed rows and to hand them to a writer, beside Python's",
	Detail: "The rows of 8 tables, in the four sizes of Continuous Checkpointing (Buffalo, 2024), table 4.3. Frames of package stream with " +
		"their sums go to a " +
		"topic in memory, and are read, checked and merged from there. A hand-over has the operations of package store: a list under a " +
		"monitor, with a wake-up, for " +
		"which no goroutine waits. Beside them, where python3 is installed, Pickle and the queue of multiprocessing; and safetensors, and Pickle " +
		"over arrays of NumPy " +
		"and tensors of PyTorch, where these are. Python's queue carries the message to another process' pipe, and ours a pointer within one " +
		"process.",
	Settings: []Setting{
		number("width", "60", 1, 1<<16, "floats of a row"),
		number("messages", "2000", 1, 1<<24, "messages of a queue in a turn").orTiny("20"),
		text("python", "python3", "a program, or no", "the Python to compare with"),
	},
	measure: runMessages,
}

//go:embed messages.py
var messagesScript string

// messageSet is a message: the bytes of each table's rows.
type messageSet struct {
	name  string
	bytes []int
}

// messageSets are those of the thesis.
var messageSets = []messageSet{
	{"1.2 KB", []int{1200, 1200, 1200, 1200, 1200, 1200, 1200, 1200}},
	{"12 KB", []int{12_000, 12_000, 12_000, 12_000, 12_000, 12_000, 12_000, 12_000}},
	{"1.2 MB", []int{1_200_000, 1_200_000, 1_200_000, 1_200_000, 1_200_000, 1_200_000, 1_200_000, 1_200_000}},
	{"1.2 to 9.6 KB", []int{1200, 2400, 3600, 4800, 6000, 7200, 8400, 9600}},
}

// messageTime is a quantity that was measured.
type messageTime struct {
	system, op, set string
	ns              []float64 // of each turn
}

func runMessages(out io.Writer, o Options) (*Report, error) {
	var all []messageTime
	turns := o.repeats()
	for _, s := range messageSets {
		var times [2][]float64
		for turn := 0; o.moreTurns(turn, turns); turn++ {
			write, read, err := o.timeFrames(s)
			if err != nil {
				return nil, err
			}
			times[0], times[1] = append(times[0], write), append(times[1], read)
		}
		all = append(all, messageTime{"frames", "serialise", s.name, times[0]}, messageTime{"frames", "deserialise", s.name, times[1]})
	}
	var puts, gets []float64
	for range turns {
		put, get := timeHandOver(o.number("messages"))
		puts, gets = append(puts, put), append(gets, get)
	}
	all = append(all, messageTime{"hand-over", "put", "", puts}, messageTime{"hand-over", "get", "", gets})
	python, err := o.timePython(turns)
	if err != nil {
		return nil, err
	}
	r := o.newReport("none")
	r.writeHeader(out)
	if python == nil {
		fmt.Fprintf(out, "\nPython is not measured: there is no program %q\n", o.text("python"))
	}
	t := table(out)
	fmt.Fprintln(t, "system\toperation\ttables of\tmedian\tleast\tgreatest\t\t")
	for _, m := range append(all, python...) {
		first := len(r.Figures)
		f := r.addFigure("time", "ns", m.ns...)
		c := map[string]string{"system": m.system, "op": m.op}
		if m.set != "" {
			c["set"] = m.set
		}
		r.setCase(first, c)
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%.0f\t%.0f\tns\t\n", m.system, m.op, m.set, f.Median, f.Min, f.Max)
	}
	return r, t.Flush()
}

// frameTime is about the time of a turn of frames.
const frameTime = 50 * time.Millisecond

// timeFrames returns the ns to write a set to a topic in memory, and to read it.
func (o Options) timeFrames(s messageSet) (write, read float64, err error) {
	e, rowBytes := env.Real(), 4*o.number("width")
	all := 0
	for _, n := range s.bytes {
		all += n
	}
	rows := max(1, all/rowBytes)
	slots, data := make([]int32, rows), make([]byte, rows*rowBytes)
	for i := range slots {
		slots[i] = int32(2 * i)
		binary.LittleEndian.PutUint64(data[i*rowBytes:], uint64(i))
	}
	topic := stream.NewMemory(e)
	run := lineage.Run{}
	l, err := stream.OpenLog(stream.LogOptions{Env: e, Topic: topic, Ranks: 1, Session: 1, Run: func() lineage.Run { return run },
		About: func() ([]byte, error) { return []byte("{}"), nil }})
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	if err := l.CutTo(0); err != nil {
		return 0, 0, err
	}
	n, began := 0, time.Now()
	for step := int64(1); step == 1 || !o.Tiny && time.Since(began) < frameTime; step++ {
		if err := l.Append(step, slots, data, nil); err != nil {
			return 0, 0, err
		}
		n++
	}
	write = float64(time.Since(began).Nanoseconds()) / float64(n)
	if err := l.Sync(); err != nil {
		return 0, 0, err
	}
	read, err = timeReading(topic, n, rows)
	return write, read, err
}

// timeReading returns the ns to read each of n sets of rows.
func timeReading(topic stream.Topic, n, rows int) (float64, error) {
	p, err := topic.Open(0)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	first, next, err := p.Bounds()
	if err != nil {
		return 0, err
	}
	var records []stream.Record
	for at := first; at < next; {
		list, err := readSome(p, at, 1<<30)
		if err != nil {
			return 0, err
		}
		for _, r := range list {
			at = r.Offset + 1
		}
		records = append(records, list...)
	}
	chain, found := stream.NewChain(0, stream.Start(first)), 0
	began := time.Now()
	for _, r := range records {
		epoch, err := chain.Take(r)
		if err != nil {
			return 0, err
		}
		if epoch == nil {
			continue
		}
		if len(epoch.Slots) != rows {
			return 0, fmt.Errorf("bench: a set has %d rows, want %d", len(epoch.Slots), rows)
		}
		found++
	}
	if found != n {
		return 0, fmt.Errorf("bench: %d sets were read, %d were written", found, n)
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n), nil
}

// timeHandOver returns the ns to put a set into the queue of a writer, and to get one.
func timeHandOver(n int) (put, get float64) {
	m, sets := env.Real().Monitor("hand-over"), make([]messageSet, n)
	var queue []*messageSet
	began := time.Now()
	for i := range sets {
		m.Lock()
		queue = append(queue, &sets[i])
		m.Wake()
		m.Unlock()
	}
	put = float64(time.Since(began).Nanoseconds()) / float64(n)
	began = time.Now()
	for range sets {
		m.Lock()
		for len(queue) == 0 {
			m.Wait()
		}
		queue = queue[1:]
		m.Unlock()
	}
	return put, float64(time.Since(began).Nanoseconds()) / float64(n)
}

// timePython runs the script. It returns nil if there is no Python.
func (o Options) timePython(turns int) (all []messageTime, err error) {
	program, err := exec.LookPath(o.text("python"))
	if err != nil || o.text("python") == "no" {
		return nil, nil
	}
	sets := map[string][]int{}
	for _, s := range messageSets {
		sets[s.name] = s.bytes
	}
	text, err := json.Marshal(sets)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-c", messagesScript, string(text), strconv.Itoa(turns), strconv.Itoa(o.number("messages")))
	runtime.LockOSThread() // endWithParent ends the child with this thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = endWithParent()
	var got, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &got, &errs
	if err := o.runCommand(cmd); err != nil {
		return nil, fmt.Errorf("bench: %s: %v: %s", program, err, bytes.TrimSpace(errs.Bytes()))
	}
	var list [][4]json.RawMessage
	if err := json.Unmarshal(got.Bytes(), &list); err != nil {
		return nil, err
	}
	for _, x := range list {
		var m messageTime
		if err := errors.Join(json.Unmarshal(x[0], &m.system), json.Unmarshal(x[1], &m.op), json.Unmarshal(x[2], &m.set),
			json.Unmarshal(x[3], &m.ns)); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
