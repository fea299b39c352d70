package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// noPython is the value of the setting python with which nothing is measured in Python.
const noPython = "none"

// pythonSetting declares the setting of a Python that has the named modules.
func pythonSetting(modules string) Setting {
	return text("python", "", "a command, or none", "Python with "+modules+". Default: python3").orTiny(noPython)
}

// findPython returns the program of the setting python. The error is ErrSetting if a program is set that does not exist.
func (o Options) findPython() (string, error) {
	program := cmp.Or(o.text("python"), "python3")
	if _, err := exec.LookPath(program); err != nil && o.text("python") != "" && program != noPython {
		return "", settingError("python=%s: %v", program, err)
	}
	return program, nil
}

// findModule imports a module in a Python and returns its version, or why the module is not measured.
func (o Options) findModule(python, module string) (version, why string) {
	if python == noPython {
		return "", "not run: python=none"
	}
	cmd := exec.Command(python, "-c", "import importlib.metadata as m, "+module+"; print(m.version('"+module+"'))")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	err := o.runCommand(cmd)
	o.mustRun()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		last := cmp.Or(strings.TrimSpace(lines[len(lines)-1]), err.Error())
		return "", fmt.Sprintf("not installed: %s has no %s (%s)", python, module, last)
	}
	return strings.TrimSpace(out.String()), ""
}
