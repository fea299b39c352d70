package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/machine"
)

// Expectations are minimum amounts by the name of the check: cores, GPUs or bytes.
type Expectations map[string]float64

// expectable lists the checks that have an amount, and whether it is in bytes.
var expectable = map[string]bool{"cpus": false, "memory": true, "shm": true, "disk": true, "gpus": false}

// UnmarshalText reads "cpus=8,memory=64GiB,gpus=4,shm=8GiB".
func (e *Expectations) UnmarshalText(text []byte) error {
	all := Expectations{}
	for _, item := range strings.Split(string(text), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		isBytes, ok := expectable[name]
		if !ok {
			return fmt.Errorf("%q: want cpus=N, memory=SIZE, shm=SIZE, disk=SIZE or gpus=N, separated by commas", item)
		}
		if _, twice := all[name]; twice {
			return fmt.Errorf("%s is given twice", name)
		}
		if isBytes {
			size, err := config.ParseSize(value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all[name] = float64(size)
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return fmt.Errorf("%s: %q is not a number of %s", name, value, name)
		}
		all[name] = float64(n)
	}
	*e = all
	return nil
}

// failBelow fails the checks whose amounts are below the expectations. A check that has already
// failed keeps its reason.
func (e Expectations) failBelow(checks []Check) {
	for i := range checks {
		c := &checks[i]
		want := e[c.Name]
		if c.amount >= want || c.Status == Fail {
			continue
		}
		least := strconv.FormatFloat(want, 'f', -1, 64)
		if expectable[c.Name] {
			least = machine.Size(int64(want))
		}
		c.Status, c.Detail = Fail, join("expected at least "+least, c.Detail)
	}
}

// join joins the sentences that are not empty.
func join(sentences ...string) string {
	var some []string
	for _, s := range sentences {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, "; ")
}
