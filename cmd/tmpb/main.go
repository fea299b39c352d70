package main

import (
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/ecrec/ecrec/bench"
)

func main() {
	b, err := bench.Find(os.Args[1])
	if p := os.Getenv("PROF"); p != "" {
		f, _ := os.Create(p)
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	if err == nil {
		_, err = b.Run(os.Stdout, bench.Options{Repeats: 3, Args: os.Args[2:]})
	}
	if err != nil {
		fmt.Println(err)
	}
}
