// Command sbom writes the bill of materials of a Go binary to stdout: CycloneDX in JSON, the
// modules that are linked into it as Go recorded them.
//
//	sbom BINARY VERSION
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("want BINARY VERSION, got %q", args)
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	version := args[1]
	bom := cyclonedx.NewBOM()
	subject := component(cyclonedx.ComponentTypeApplication, info.Main.Path, "v"+version)
	bom.Metadata = &cyclonedx.Metadata{Component: &subject}
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version))
	}
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: subject.BOMRef, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}
