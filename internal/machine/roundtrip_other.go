//go:build !linux

package machine

import "time"

// CoreRoundTrip is unknown on this system.
func CoreRoundTrip() (time.Duration, bool) { return 0, false }
