package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/machine"
)

// Expectations are what the machine must have at least, by the name of the check:
// a number of cores or GPUs, or bytes.
type Expectations map[string]float64

// expectable are the checks that count something, and whether that is bytes.
var expectable = map[string]bool{"cpus": false, "memory": true, "shm": true, "disk": true, "gpus": false}

// UnmarshalText reads "cpus=8,memory=64GiB,gpus=4,shm=8GiB".
func (e *Expectations) UnmarshalText(text []byte) error {
	all := Expectations{}
	for _, item := range strings.Split(string(text), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		isBytes, ok := expectable[name]
		if !ok {
			return fmt.Errorf("%q: want cpus=N, memory=SIZE, shm=SIZE, disk=SIZE or gpus=N, with commas between", item)
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

// compare fails the checks that found less. One that has failed already keeps its
// reason.
func (e Expectations) compare(checks []Check) {
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
