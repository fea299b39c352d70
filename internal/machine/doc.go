// Package machine reads the resources of this machine.
package machine
