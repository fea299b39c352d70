package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/ecrec/ecrec/internal/doctor"
)

type doctorCmd struct {
	JSON   bool                `name:"json" help:"Print one JSON object."`
	Out    string              `placeholder:"DIR" help:"An output folder: check that runs can write there."`
	Expect doctor.Expectations `placeholder:"cpus=N,memory=SIZE,..." help:"What the machine must have at least: cpus, memory, shm, disk, gpus."`
	Here   bool                `hidden:"" help:"Ask in this process, and print JSON."`
}

// Run prints what the machine offers. A check that failed is an error.
//
// Another process asks: where the kernel holds a thread, in a driver or a file system
// that hangs, its process cannot end, and this one must.
func (c *doctorCmd) Run(a *app) error {
	if c.Here {
		return doctor.Examine(doctor.Options{Out: c.Out, Expect: c.Expect}).WriteJSON(a.out)
	}
	cmd := exec.Command("/proc/self/exe", append(a.args[:len(a.args):len(a.args)], "--here")...)
	cmd.Args[0] = os.Args[0]
	r, err := reportOf(cmd, doctor.Limit+doctorSlack)
	if err != nil {
		return err
	}
	write := r.WriteText
	if c.JSON {
		write = r.WriteJSON
	}
	if err := write(a.out); err != nil {
		return err
	}
	return r.Err()
}

// doctorSlack is how much longer a process may take than the checks in it.
const doctorSlack = 2 * time.Second

// reportOf reads the report that cmd prints, and does not wait for its end.
func reportOf(cmd *exec.Cmd, limit time.Duration) (*doctor.Report, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout = in
	err = cmd.Start()
	_ = in.Close() // the child has its own
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	r := &doctor.Report{}
	if err = out.SetReadDeadline(time.Now().Add(limit)); err == nil {
		err = json.NewDecoder(out).Decode(r)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("doctor: the process that asks the machine gave no report, for which it has %v: %w", limit, err)
	}
	return r, nil
}
