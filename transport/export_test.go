package transport

import "net"

// Tune lets f see each connection before Join uses it.
func (o *NetOptions) Tune(f func(net.Conn)) { o.tune = f }
