package doctor

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/internal/machine"
)

// driver is what NVML tells of all GPUs.
type driver struct {
	problem string // why it tells nothing
	broken  bool   // that is a fault, not the absence of a driver
	version string
	gpus    []gpu
}

// gpu is what NVML tells of one.
type gpu struct {
	problem       string // why it tells nothing
	name          string
	total, free   int64  // bytes of memory
	capability    string // of CUDA; "": unknown
	uncorrected   uint64 // ECC errors since the driver was loaded
	remapFailed   bool   // rows of memory are broken, and no spare ones are left
	remapPending  bool   // rows of memory are replaced by the next reset
	clocksReasons uint64 // why its clocks are lower than they could be, as NVML's bits
}

// slowdowns are the bits of clocksReasons that mean a problem of the machine.
var slowdowns = []struct {
	bit  uint64
	name string
}{
	{0x08, "hardware slowdown"}, {0x20, "software thermal slowdown"}, {0x40, "hardware thermal slowdown"}, {0x80, "power brake"},
}

// checks are "gpus", which counts those that can be used, and one of each GPU.
func (d driver) checks() []Check {
	switch {
	case d.broken:
		return []Check{{Status: Fail, Value: "cannot be asked", Detail: d.problem}}
	case d.problem != "":
		return []Check{{Status: Absent, Value: "none found", Detail: d.problem}}
	case len(d.gpus) == 0:
		return []Check{{Status: Absent, Value: "none found", Detail: "the driver " + d.version + " has none"}}
	}
	usable := 0
	var each []Check
	for i, g := range d.gpus {
		c := g.check()
		c.Name = fmt.Sprintf("gpu%d", i)
		each = append(each, c)
		if c.Status != Fail {
			usable++
		}
	}
	all := Check{Status: OK, Value: fmt.Sprintf("%d, driver %s", len(d.gpus), d.version), amount: float64(usable)}
	return append([]Check{all}, each...)
}

func (g gpu) check() Check {
	if g.problem != "" {
		return Check{Status: Fail, Value: "cannot be asked", Detail: g.problem}
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
		c.Status, c.Detail = Warn, "its clocks are held back by "+strings.Join(slow, ", ")+"; look at its cooling and power"
	}
	if g.remapPending {
		c.Status, c.Detail = Warn, join("rows of its memory wait to be replaced; reset it", c.Detail)
	}
	if g.uncorrected > 0 {
		c.Status, c.Detail = Fail, join(fmt.Sprintf("%d uncorrected ECC errors since the driver was loaded; reset it", g.uncorrected), c.Detail)
	}
	if g.remapFailed {
		c.Status, c.Detail = Fail, join("rows of its memory could not be replaced; replace it", c.Detail)
	}
	return c
}

// gpus asks NVML.
func gpus() []Check { return askNVML().checks() }
