// Command ecrec trains recommendation models; see README.md.
package main

import (
	"os"

	"github.com/ecrec/ecrec/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
