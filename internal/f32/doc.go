// Package f32 holds float32 arithmetic with one result on every machine: a
// fused multiply-add, and exp, log and sigmoid that do not depend on what the
// compiler fuses or which instructions the CPU has (DESIGN.md section 8).
package f32
