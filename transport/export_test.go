package transport

import "net"

// Tune sets a function that is called with each connection before Join uses it.
func (o *NetOptions) Tune(f func(net.Conn)) { o.tune = f }

// KeepApart makes Join behave as if no process could read another's memory.
func (o *NetOptions) KeepApart() { o.noDirectReads = true }
