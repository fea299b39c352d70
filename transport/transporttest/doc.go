// Package transporttest is the conformance suite of package transport: every
// implementation runs it, by itself and under Wrap's faults. Each test is one
// sentence of the contract in transport's package doc.
package transporttest
