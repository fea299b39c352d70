// Package blockcopy copies long blocks of memory with the CPU's fastest instructions for
// their size.
package blockcopy
