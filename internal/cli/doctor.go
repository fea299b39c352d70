package cli

import "github.com/ecrec/ecrec/internal/doctor"

type doctorCmd struct {
	JSON   bool                `name:"json" help:"Print one JSON object."`
	Out    string              `placeholder:"DIR" help:"An output folder: check that runs can write there."`
	Expect doctor.Expectations `placeholder:"cpus=N,memory=SIZE,..." help:"What the machine must have at least: cpus, memory, shm, disk, gpus."`
}

// Run prints what the machine offers. A check that failed is an error.
func (c *doctorCmd) Run(a *app) error {
	r := doctor.Examine(doctor.Options{Out: c.Out, Expect: c.Expect})
	write := r.WriteText
	if c.JSON {
		write = r.WriteJSON
	}
	if err := write(a.out); err != nil {
		return err
	}
	return r.Err()
}
