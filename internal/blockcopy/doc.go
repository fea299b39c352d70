// Package blockcopy copies long blocks of memory, the faster of the CPU's ways.
package blockcopy
