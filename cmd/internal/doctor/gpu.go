package doctor

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/internal/machine"
)

// driver is the state of all GPUs according to NVML.
type driver struct {
	problem string // why there is no state
	broken  bool   // the problem is a fault, not the absence of a driver
	version string
	gpus    []gpu
}

// gpu is the state of one GPU according to NVML.
type gpu struct {
	problem       string // why there is no state
	name          string
	total, free   int64  // bytes of memory
	capability    string // of CUDA; "": unknown
	uncorrected   uint64 // ECC errors since the driver was loaded
	remapFailed   bool   // memory rows are broken, and no spare ones are left
	remapPending  bool   // memory rows are remapped by the next reset
	clocksReasons uint64 // why the clocks are reduced, as NVML's bits
}

// slowdowns lists the bits of clocksReasons that indicate a problem of the machine.
var slowdowns = []struct {
	bit  uint64
	name string
}{
	{0x08, "hardware slowdown"}, {0x20, "software thermal slowdown"}, {0x40, "hardware thermal slowdown"}, {0x80, "power brake"},
}

// toChecks returns the check "gpus", which counts the usable GPUs, and one check per GPU.
func (d driver) toChecks() []Check {
	switch {
	case d.broken:
		return []Check{{Status: Fail, Value: "cannot be queried", Detail: d.problem}}
	case d.problem != "":
		return []Check{{Status: Absent, Value: "none found", Detail: d.problem}}
	case len(d.gpus) == 0:
		return []Check{{Status: Absent, Value: "none found", Detail: "driver " + d.version + " reports no GPU"}}
	}
	usable := 0
	var each []Check
	for i, g := range d.gpus {
		c := g.toCheck()
		c.Name = fmt.Sprintf("gpu%d", i)
		each = append(each, c)
		if c.Status != Fail {
			usable++
		}
	}
	all := Check{Status: OK, Value: fmt.Sprintf("%d, driver %s", len(d.gpus), d.version), amount: float64(usable)}
	return append([]Check{all}, each...)
}

func (g gpu) toCheck() Check {
	if g.problem != "" {
		return Check{Status: Fail, Value: "cannot be queried", Detail: g.problem}
	}
	c := Check{Status: OK, Value: fmt.Sprintf("%s, %s, %s free", g.name, machine.Size(g.total), machine.Size(g.free))}
	if g.capability != "" {
		c.Value += ", compute capability " + g.capability
	}
	var slow []string
	for _, s := range slowdowns {
		if g.clocksReasons&s.bit != 0 {
			slow = append(slow, s.name)
		}
	}
	if slow != nil {
		c.Status, c.Detail = Warn, "clocks are reduced by "+strings.Join(slow, ", ")+"; check cooling and power"
	}
	if g.remapPending {
		c.Status, c.Detail = Warn, join("memory rows are waiting to be remapped; reset the GPU", c.Detail)
	}
	if g.uncorrected > 0 {
		c.Status, c.Detail = Fail, join(fmt.Sprintf("%d uncorrected ECC errors since the driver was loaded; reset the GPU",
			g.uncorrected), c.Detail)
	}
	if g.remapFailed {
		c.Status, c.Detail = Fail, join("memory rows could not be remapped; replace the GPU", c.Detail)
	}
	return c
}

// gpus queries NVML.
func gpus() []Check { return queryNVML().toChecks() }
