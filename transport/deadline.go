package transport

import "time"

// soon is d from now, as sockets want their deadlines: the one use of the clock
// that env cannot stand for.
func soon(d time.Duration) time.Time { return time.Now().Add(d) }
