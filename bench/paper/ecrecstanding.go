package paper

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/bench"
)

// standsStill checks that a window of ckpt-full has no step. Only a pause of two windows is sure to fill one.
func standsStill(f *Figure, r *bench.Report, minutes int) (c Check, err error) {
	s := checkpointsOf(minutes)
	of := append([]string{"size", "8S"}, s.of...)
	pause, _, err := point(r, 0, "", "pause", of...)
	if err != nil {
		return c, err
	}
	window, _, err := point(r, 0, "", "window", of...)
	if err != nil {
		return c, err
	}
	least := slices.MinFunc(f.points(s.name), byValue)
	c = holdsIf(fmt.Sprintf("the throughput of %s falls to 0 while it writes", s.name), least.Y == 0,
		"the least window has %s samples/s", number(least.Y))
	c.Few = pause.Few
	if !c.Holds && pause.Least < 2*window.Y {
		c.Unclear, c.Few = true, false
		c.Seen += fmt.Sprintf("; it lasts %s s, and a pause of %s s need not fill it", number(window.Y), seen(pause))
	}
	return c, nil
}
