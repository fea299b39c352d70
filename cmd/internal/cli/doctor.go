package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/doctor"
)

type doctorCmd struct {
	JSON   bool                `name:"json" help:"Print one JSON object, on one line."`
	Out    string              `placeholder:"DIR" help:"Also check that runs can write to this output folder."`
	Expect doctor.Expectations `placeholder:"cpus=N,memory=SIZE,..." help:"Minimum that the machine must have: cpus, memory, shm, disk, gpus."`
	Here   bool                `hidden:"" help:"Check in this process and print JSON."`
}

// Run prints the report of the machine. It returns an error if a check has failed.
//
// The checks run in another process. A process cannot end while the kernel holds one of its
// threads, for example in a driver or file system that hangs; this process must end.
func (c *doctorCmd) Run(a *app) error {
	if c.Here {
		return doctor.Examine(doctor.Options{Out: c.Out, Expect: c.Expect}).WriteJSON(a.out)
	}
	program, err := self()
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	cmd := exec.Command(program, append(a.args[:len(a.args):len(a.args)], "--here")...)
	cmd.Args[0] = os.Args[0]
	r, err := reportOf(cmd, doctor.CompileLimit+doctorSlack)
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

// doctorSlack is the time for a process to start and to print its report, in addition to its
// checks.
const doctorSlack = 2 * time.Second

// reportOf runs cmd and reads the report that it prints. It does not wait for the end of cmd.
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
		return nil, fmt.Errorf("doctor: the checking process gave no report within %v: %w", limit, err)
	}
	return r, nil
}
