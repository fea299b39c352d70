package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeOutput runs the commands of README.md's section "Two commands", and checks that it
// shows lines that they print, digests included.
func TestReadmeOutput(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## Two commands\n")
	if !ok {
		t.Fatal(`README.md has no section "Two commands"`)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	shown := regexp.MustCompile("```sh\n(.*)\n```\n\n```text\n((?s:.*?))```").FindAllStringSubmatch(section, -1)
	if len(shown) != 2 {
		t.Fatalf("%d commands of the section show their output, want 2", len(shown))
	}
	for _, s := range shown {
		command, _, _ := strings.Cut(s[1], "#")
		command = strings.Replace(command, "make quickstart", "./ecrec train examples/quickstart.toml", 1)
		args := strings.Fields(strings.ReplaceAll(command, "examples/", "../../examples/"))[1:]
		r := run(t, ecrec(t), nil, append(args, "--set", "job.out="+filepath.Join(t.TempDir(), "quickstart"))...)
		if r.code != 0 {
			t.Fatalf("%s: code %d\n%s", s[1], r.code, r.stderr)
		}
		printed := outputLines(r.stdout + r.stderr)
		for _, line := range outputLines(s[2]) {
			if !slices.Contains(printed, line) {
				t.Errorf("README.md shows a line that %q does not print: %s\nit prints:\n%s", s[1], line, strings.Join(printed, "\n"))
			}
		}
	}
}

// outputLines splits the output of a run into lines, without the parts that differ between two
// runs: times, rates, the machine, and lines about progress.
func outputLines(output string) (lines []string) {
	varies := regexp.MustCompile(`\d\d:\d\d:\d\d|[\d,.]+ (samples/s|ms|threads?)|node [^:]+|on cpu \w+|(of rank \d+|processes|step [\d,]+) on [^ :]+`)
	for line := range strings.Lines(output) {
		if !strings.Contains(line, "  loss ") {
			lines = append(lines, varies.ReplaceAllString(strings.TrimSpace(line), "*"))
		}
	}
	return lines
}
