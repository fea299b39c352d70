// Package f32 holds float32 arithmetic with one result on every machine: a
// fused multiply-add, and exp, log and sigmoid whose bits depend neither on
// the compiler nor on the CPU.
//
// Go may fuse a*b + c into one rounding (it does with GOAMD64=v3 and on arm64), and
// math.Exp and math.Log give other bits with other CPU features. Code that touches
// numbers therefore writes float32(a*b) + c, or calls FMA.
package f32
