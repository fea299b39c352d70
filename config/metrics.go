package config

import (
	"net"
	"strconv"
	"strings"
)

// checkMetrics checks where figures are shown.
func (c *Config) checkMetrics(src *source) error {
	if listen := c.Metrics.Listen; listen != "" {
		_, port, err := net.SplitHostPort(listen)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return src.errorf("metrics.listen", "%q is not HOST:PORT or :PORT; use \":9100\", or \"127.0.0.1:9100\" for this machine alone", listen)
		}
	}
	if file := c.Metrics.Textfile; file != "" && !strings.HasSuffix(file, ".prom") {
		return src.errorf("metrics.textfile", "%q does not end in .prom, and node_exporter reads no other files", file)
	}
	return nil
}
