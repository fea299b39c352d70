package slurm

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func plainJob() Job {
	return Job{Made: "ecrec slurm run.toml", Name: "run", Nodes: 1, TasksPerNode: 1, SignalBefore: 120, MaxRequeues: 100,
		Logs: ".", Ecrec: "ecrec", Config: "run.toml", Out: "runs/run", Checkpoints: "checkpoints", Store: "store", Seed: 42}
}

func write(t *testing.T, j *Job) string {
	t.Helper()
	text, err := j.Script()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// randomText returns a text of characters that shells interpret.
func randomText(r *rand.Rand) string {
	const odd = " '\"\\$`!*?[]{}()<>|&;#~=%^-\tabcäö"
	runes := []rune(odd)
	var b strings.Builder
	for range 1 + r.IntN(12) {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return b.String()
}

func bash(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not there")
	}
	out, err := exec.Command("bash", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("bash: %v\n%s", err, out)
	}
	return string(out)
}

func TestBashReadsWhatWasQuoted(t *testing.T) {
	r := random(t)
	words := []string{"", "~", "a=b", "-n", "it's", "two\nlines"}
	for range 500 {
		words = append(words, randomText(r))
	}
	got := bash(t, "-c", `printf '%s\0' `+Line(words))
	if want := strings.Join(words, "\x00") + "\x00"; got != want {
		t.Errorf("bash reads %q, want %q", got, want)
	}
}

// sbatchReads parses a line of options as sbatch does: with both kinds of quotes, and a backslash
// before any character, in quotes too.
func sbatchReads(line string) (words []string) {
	var word strings.Builder
	var quote byte
	begun := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
			word.WriteByte(line[i])
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '#':
			i = len(line)
		case quote == 0 && (c == ' ' || c == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
			continue
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

func TestSbatchReadsWhatWasQuoted(t *testing.T) {
	r := random(t)
	for range 2000 {
		text := randomText(r)
		if got := sbatchReads(option("job-name", text)); !slices.Equal(got, []string{"--job-name=" + text}) {
			t.Fatalf("%q is read as %q", text, got)
		}
	}
}

// stub is a stand-in for a program of Slurm.
func stub(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// runScript runs a script on this machine, with a stand-in for srun that runs its command here, as
// one task. Each stand-in writes its arguments to the file called.
func runScript(t *testing.T, j *Job, ecrec string, env ...string) (called string, code int) {
	t.Helper()
	for _, need := range []string{"bash", "setsid"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(need + " is not there")
		}
	}
	dir := t.TempDir()
	told := `echo "${0##*/}$(printf ' <%s>' "$@")" >>called` + "\n"
	stub(t, dir, "srun", told+"echo $PPID >script.pid\n"+`while [[ $1 == --* ]]; do shift; done
export SLURM_PROCID=0
[ "${AFTER-}" ] || exec setsid "$@"
setsid "$@"
eval "$AFTER"`)
	stub(t, dir, "squeue", told+`case $* in *%T*) echo RUNNING;; *) echo "$NODES";; esac`)
	stub(t, dir, "scontrol", told+`[ $1 != show ] || printf '%s\n' $3`)
	stub(t, dir, "scancel", told)
	stub(t, dir, "sleep", "echo $1 >>slept\n"+`case $1 in "${LONG-}") exec /bin/sleep 60;; 15) exec /bin/sleep 2;; *) exec /bin/sleep 0.05;; esac`)
	stub(t, dir, "ecrec", told+ecrec)
	script := filepath.Join(dir, "job.sbatch")
	if err := os.WriteFile(script, []byte(write(t, j)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", script)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[0-1]", "SLURMD_NODENAME=n0"}, env...)...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if err == exec.ErrWaitDelay {
		t.Error("a process outlives the script")
	}
	text, err := os.ReadFile(filepath.Join(dir, "called"))
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".ecrec-done-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// survivor returns a job whose tasks restart in a loop.
func survivor() *Job {
	j := plainJob()
	j.Nodes, j.SpareNodes, j.Elastic = 2, 1, true
	return &j
}

func TestExitCodes(t *testing.T) {
	for _, code := range []int{0, 1, 2, 137, 143} {
		j := plainJob()
		called, got := runScript(t, &j, "exit "+strconv.Itoa(code))
		if got != code || strings.Contains(called, "scontrol <requeue>") {
			t.Errorf("%d: the script ends with %d, after\n%s", code, got, called)
		}
	}
}

func TestATaskEndsTheJobOfALostScript(t *testing.T) {
	for nodes, want := range map[string]bool{"": false, "n0 n1": false, "n1 n2": true} {
		for code := range 2 { // however the run ends
			called, got := runScript(t, survivor(), "exit "+strconv.Itoa(code), "NODES="+nodes)
			if got != code || strings.Contains(called, "scancel <7>\n") != want {
				t.Errorf("code %d, nodes %q, after\n%s", got, nodes, called)
			}
		}
	}
}

// countdown is a program that exits with the codes in its arguments, one after the other.
const countdown = `n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; codes=(%); exit ${codes[n]}`

func TestKilledSupervisorsComeBack(t *testing.T) {
	for codes, want := range map[string]int{"137 137 0": 0, "137 1": 1, "2": 2} {
		called, got := runScript(t, survivor(), strings.ReplaceAll(countdown, "%", codes))
		if n := strings.Count(called, "ecrec <train>"); got != want || n != len(strings.Fields(codes)) {
			t.Errorf("%s: %d starts, code %d, want %d", codes, n, got, want)
		}
	}
}

func TestNobodyComesBackToARunThatIsDone(t *testing.T) {
	called, got := runScript(t, survivor(), `echo 0 >"$mark"; exit 137`)
	if n := strings.Count(called, "ecrec <train>"); got != 0 || n != 1 {
		t.Errorf("%d starts, code %d", n, got)
	}
}

// srun exits with the code of a lost task, even if the run has finished or is saved. It may also
// wait for the daemon of a lost node.
func TestTheScriptEndsWithTheCodeOfTheRun(t *testing.T) {
	for _, after := range []string{"exit 137", "exec /bin/sleep 60"} {
		for _, code := range []int{0, 143} {
			if _, got := runScript(t, survivor(), "exit "+strconv.Itoa(code), "AFTER="+after); got != code {
				t.Errorf("the run ends with %d, srun does %q, the script ends with %d", code, after, got)
			}
		}
	}
	if _, got := runScript(t, survivor(), "exit 1", "AFTER=exit 1"); got != 1 {
		t.Errorf("a run that failed: the script ends with %d", got)
	}
}

// If srun ends in time, nothing is left of the process that would have ended it.
func TestNothingOutlivesTheScript(t *testing.T) {
	const slept = "until grep -qx % slept; do /bin/sleep 0.01; done 2>/dev/null"
	for _, c := range []struct{ long, ecrec, after string }{
		{"5", strings.ReplaceAll(slept, "%", "5"), "exit 0"}, // asleep before the run ends
		{"15", "exit 0", strings.ReplaceAll(slept, "%", "15")},
	} {
		if called, got := runScript(t, survivor(), c.ecrec, "LONG="+c.long, "AFTER="+c.after); got != 0 {
			t.Errorf("code %d, after\n%s", got, called)
		}
	}
}

func TestTimeLimitSavesAndRequeues(t *testing.T) {
	// The script receives each signal twice. The run must receive SIGTERM once. Bash fails if a trap
	// runs while it reads a command substitution: there is none after the first signal.
	const saves = `trap 'echo TERM >>called; saved=yes' TERM
read -r script <script.pid
kill -% "$script"
for ((i = 0; i < 200; i++)); do /bin/sleep 0.02; [ ! "${saved-}" ] || break; done
kill -% "$script"
/bin/sleep 0.1
exit 143
`
	elements := plainJob()
	elements.Array = "0-3%2"
	single := plainJob()
	for name, c := range map[string]struct {
		job    *Job
		signal string
		env    []string
		want   string // how scontrol is called
	}{
		"USR1":                 {survivor(), "USR1", nil, "scontrol <requeue> <7>\n"},
		"USR1, one process":    {&single, "USR1", nil, "scontrol <requeue> <7>\n"},
		"USR1, an element":     {&elements, "USR1", []string{"SLURM_ARRAY_JOB_ID=5", "SLURM_ARRAY_TASK_ID=2"}, "scontrol <requeue> <5_2>\n"},
		"USR1, the 99th time":  {survivor(), "USR1", []string{"SLURM_RESTART_COUNT=99"}, "scontrol <requeue> <7>\n"},
		"USR1, the 100th time": {survivor(), "USR1", []string{"SLURM_RESTART_COUNT=100"}, ""},
		"TERM":                 {survivor(), "TERM", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			called, code := runScript(t, c.job, strings.ReplaceAll(saves, "%", c.signal), c.env...)
			if code != 143 || strings.Count(called, "\nTERM\n") != 1 || strings.Count(called, "ecrec <train>") != 1 {
				t.Errorf("code %d, after\n%s", code, called)
			}
			if !strings.HasSuffix(called, c.want) || strings.Contains(called, "scontrol <requeue>") != (c.want != "") {
				t.Errorf("want %q at the end of\n%s", c.want, called)
			}
		})
	}
}

// TestArguments checks the arguments that bash passes to ecrec, through srun and a loop.
func TestArguments(t *testing.T) {
	r := random(t)
	for range 5 {
		j := survivor()
		j.Config, j.Out, j.Checkpoints, j.Store, j.Array = randomText(r), randomText(r), randomText(r), randomText(r), "0-9"
		j.Name, j.Mem, j.Made = randomText(r), randomText(r), randomText(r)
		j.Sets = []string{"data.train=" + randomText(r), "job.name=" + randomText(r)}
		j.TaskLogs = true
		called, code := runScript(t, j, "exit 0", "SLURM_ARRAY_JOB_ID=5", "SLURM_ARRAY_TASK_ID=3", "SLURM_CPUS_PER_TASK=4")
		want := []string{"", "train", j.Config, "--resume", "auto", "--set", j.Sets[0], "--set", j.Sets[1], "--set", "elastic.spares=1",
			"--set", "job.seed=45", "--set", "job.out=" + j.Out + "-3", "--set", "checkpoint.dir=" + j.Checkpoints + "-3",
			"--set", "store.path=" + j.Store + "-3"}
		if line := "ecrec" + strings.Join(want, "> <")[1:] + ">\n"; code != 0 || !strings.Contains(called, line) {
			t.Fatalf("code %d, after\n%s, want the end\n%s", code, called, line)
		}
		if !strings.Contains(called, " <--cpus-per-task=4> ") {
			t.Errorf("cores of a task are missing in\n%s", called)
		}
	}
}

func TestRefusesJobs(t *testing.T) {
	for want, spoil := range map[string]func(*Job){
		"--nodes 0":                                   func(j *Job) { j.Nodes = 0 },
		"--spare-nodes -1":                            func(j *Job) { j.SpareNodes = -1 },
		"--tasks-per-node 0":                          func(j *Job) { j.TasksPerNode = 0 },
		"a run has at most 4096 processes":            func(j *Job) { j.Nodes, j.TasksPerNode = 100, 100 },
		"--cpus-per-task -1":                          func(j *Job) { j.CPUsPerTask = -1 },
		"--gpus-per-node -1":                          func(j *Job) { j.GPUsPerNode = -1 },
		"add --set ec.code=xor":                       func(j *Job) { j.SpareNodes = 1 },
		"--signal-before 0":                           func(j *Job) { j.SignalBefore = 0 },
		"--signal-before 65536":                       func(j *Job) { j.SignalBefore = 65536 },
		"--max-requeues -1":                           func(j *Job) { j.MaxRequeues = -1 },
		`--array "0-7;x"`:                             func(j *Job) { j.Array = "0-7;x" },
		`--sbatch "reservation"`:                      func(j *Job) { j.Options = []string{"reservation"} },
		"must not contain a line end":                 func(j *Job) { j.Partition = "a\nb" },
		`"--comment=a\rb": a value in a batch script`: func(j *Job) { j.Options = []string{"--comment=a\rb"} },
		`"a=\nb": a value in a batch script`:          func(j *Job) { j.Sets = []string{"a=\nb"} },
	} {
		j := plainJob()
		spoil(&j)
		if text, err := j.Script(); err == nil || text != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	for _, array := range []string{"3", "0-7", "0-7%2", "1,3,5-9:2%4"} {
		j := plainJob()
		if j.Array = array; j.validate() != nil {
			t.Errorf("--array %s: %v", array, j.validate())
		}
	}
}

func TestHeader(t *testing.T) {
	j := survivor()
	j.CPUsPerTask, j.GPUsPerNode, j.TasksPerNode = 8, 4, 4
	j.Mem, j.Time, j.Partition, j.Account, j.QOS, j.Constraint = "64G", "1-00:00:00", "gpu", "lab", "high", "a100&ib"
	j.Exclusive, j.Options, j.Logs, j.Array, j.Name = true, []string{"--reservation=x"}, "my logs/100%", "0-7%2", "a run"
	want := `--job-name="a run" --nodes=3 --ntasks-per-node=4 --cpus-per-task=8 --gpus-per-node=4 --mem=64G --time=1-00:00:00 --partition=gpu --account=lab --qos=high --constraint="a100&ib" --exclusive --array=0-7%2 --output="my logs/100%%/%x-%A_%a.out" --open-mode=append --signal=B:USR1@120 --requeue --no-kill --reservation=x`
	if got := strings.Join(j.Header(), " "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	text := write(t, j)
	if n := strings.Count(text, "\n#SBATCH "); n != len(j.Header()) || strings.Contains(text[:strings.LastIndex(text, "#SBATCH")], "\nset ") {
		t.Errorf("sbatch reads %d options only before the first command:\n%s", n, text)
	}
}

func TestTimeLimits(t *testing.T) {
	for limit, good := range map[string]bool{"": true, "90": true, "90:30": true, "24:00:00": true, "2-12": true, "2-12:30": true, "2-12:30:00": true,
		"UNLIMITED": true, "infinite": true, "abc": false, "1h": false, "-5": false, "1:2:3:4": false, "1-": false, "24:00:00 ": false} {
		j := plainJob()
		j.Time = limit
		if _, err := j.Script(); (err == nil) != good {
			t.Errorf("--time %q: %v", limit, err)
		}
	}
}
