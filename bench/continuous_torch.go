package bench

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// sysTorch is a job for which torch.save saves tensors of the model's sizes.
const sysTorch = "torch"

//go:embed continuous.py
var torchSaveScript string

// torchSaver is a process of PyTorch that holds tensors of a model's sizes, and saves and loads them.
type torchSaver struct {
	cmd      *exec.Cmd
	requests io.WriteCloser
	replies  *bufio.Reader
	errs     bytes.Buffer
}

// startTorch starts a process, and returns once its tensors are in memory. Shapes are those of the tensors.
func startTorch(python, dir string, shapes [][]int64) (*torchSaver, error) {
	text, err := json.Marshal(shapes)
	if err != nil {
		return nil, err
	}
	// The process ends when its input is closed: also if this one is killed.
	t := &torchSaver{cmd: exec.Command(python, "-c", torchSaveScript, dir, string(text))}
	t.cmd.Stderr = &t.errs
	if t.requests, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.replies = bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	reply, err := t.readReply()
	if err == nil && reply != "ready" {
		err = fmt.Errorf("bench: torch.save: the Python process wrote %q, want ready", reply)
	}
	if err != nil {
		return nil, errors.Join(err, t.endProcess())
	}
	return t, nil
}

// readReply returns the next line. If there is none, the error has the end of what the process wrote to its standard error.
func (t *torchSaver) readReply() (string, error) {
	line, err := t.replies.ReadString('\n')
	if err != nil {
		_ = t.cmd.Wait() // errs is complete then
		text := strings.TrimSpace(t.errs.String())
		return "", fmt.Errorf("bench: torch.save: the Python process ended: %s", text[max(0, len(text)-2000):])
	}
	return strings.TrimSpace(line), nil
}

func (t *torchSaver) request(what string) (string, error) {
	if _, err := io.WriteString(t.requests, what+"\n"); err != nil {
		return "", fmt.Errorf("bench: torch.save: %w", err)
	}
	return t.readReply()
}

// save saves the tensors, and returns the size of the file in bytes.
func (t *torchSaver) save() (int64, error) {
	reply, err := t.request("save")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(reply, 10, 64)
}

// load loads the file of the last save, and returns the seconds that it took.
func (t *torchSaver) load() (float64, error) {
	reply, err := t.request("load")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(reply, 64)
}

func (t *torchSaver) endProcess() error {
	err := t.requests.Close()
	if t.cmd.ProcessState != nil { // readReply has waited
		return err
	}
	return errors.Join(err, t.cmd.Wait())
}

// tensorShapes returns the shapes of the model's rows, one tensor for each table, and of its dense part, one tensor.
func (b *continuousRun) tensorShapes() ([][]int64, error) {
	cfg, err := b.config(1)
	if err != nil {
		return nil, err
	}
	shapes := [][]int64{{int64(b.info.DenseParams)}}
	for _, rows := range cfg.Model.Tables.Rows {
		shapes = append(shapes, []int64{rows, int64(b.info.BytesPerRow) / 4})
	}
	return shapes, nil
}

// runTorch runs a job for which torch.save saves at the end of some epochs, while training waits. The process of PyTorch has started
// before, and has all of the memory that it needs.
func (b *continuousRun) runTorch(every int) (x continuousTimes, err error) {
	shapes, err := b.tensorShapes()
	if err != nil {
		return x, err
	}
	t, err := startTorch(b.python, b.dir, shapes)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, t.endProcess()) }()
	x, err = b.runWhole(&wholeJob{save: t.save, every: int64(every * b.epoch)})
	if err != nil || b.o.isStopped() {
		return x, err
	}
	if every == b.o.numbers("every")[0] {
		seconds, err := t.load()
		if err != nil {
			return x, err
		}
		b.rebuild.torch = append(b.rebuild.torch, seconds)
	}
	return x, nil
}
