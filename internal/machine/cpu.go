package machine

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strings"
)

// CPU returns the processor's name, as the kernel reports it.
func CPU() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
