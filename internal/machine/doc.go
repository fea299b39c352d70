// Package machine says what this machine has to offer.
package machine
