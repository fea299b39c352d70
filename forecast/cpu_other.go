//go:build !linux

package forecast

import "time"

// usedTime is 0: times are those of the clock here.
func usedTime(bool) time.Duration { return 0 }
