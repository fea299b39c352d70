//go:build !linux

package doctor

func freeDisk(string) string { return "cannot be told on this system" }
