package transport

import "net"

// Tune lets f see each connection before Join uses it.
func (o *NetOptions) Tune(f func(net.Conn)) { o.tune = f }

// KeepApart makes Join do as where no process may read another's memory.
func (o *NetOptions) KeepApart() { o.apart = true }
