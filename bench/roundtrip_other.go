//go:build !linux

package bench

import "time"

// coreRoundTrip is unknown on this system.
func coreRoundTrip() (time.Duration, bool) { return 0, false }
