// Package transporttest is the conformance suite of package transport. Every
// implementation runs it, by itself and with the faults of transport.Wrap. Each test
// checks one sentence of the contract in the package doc of transport.
package transporttest
