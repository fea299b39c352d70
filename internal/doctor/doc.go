// Package doctor says what this machine offers and what ecrec would choose on it.
//
// It looks and never changes anything, and never fails because something is
// absent: every line says either what was found or that nothing was, and where it
// looked. Libraries are searched for by file name, not opened, but for OpenBLAS
// and NVML, which are asked for their versions (cgo builds only; after a failed
// NVML Init nothing else of it is called, for that would end the process).
package doctor
