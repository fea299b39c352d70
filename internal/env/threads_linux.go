package env

import (
	"os"
	"strconv"
)

// eachThread calls f with the number of each thread of this process. This includes threads
// that are started during the call by threads for which f was not called yet.
func eachThread(f func(id int)) {
	seen := map[string]bool{}
	for more := true; more; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		more = false
		for _, t := range threads {
			if seen[t.Name()] {
				continue
			}
			seen[t.Name()], more = true, true
			if id, err := strconv.Atoi(t.Name()); err == nil {
				f(id)
			}
		}
	}
}
