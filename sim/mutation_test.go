package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("mutations", false, "run TestMutations, which builds ecrec once for each")

// mutation is a broken step of a protocol: texts of one file, and what they become.
// Runs from a seed on show it, soon.
type mutation struct {
	name, file string
	change     []string // old, new, old, new ...
	seed       uint64
}

var mutations = []mutation{
	{"a pre-image is skipped", "shard/journal.go", []string{"j.fresh = append(j.fresh, slot)", "if slot%3 != 1 {\nj.fresh = append(j.fresh, slot)\n}"}, 2},
	{"a rollback leaves the epoch under way", "shard/journal.go", []string{"append(slices.Clone(j.sealed[keep:]), j.active)", "slices.Clone(j.sealed[keep:])"}, 2},
	{"epochs are undone oldest first", "shard/journal.go", []string{"for i := len(undone) - 1; i >= 0; i-- {", "for i := range undone {"}, 11},
	{"the newest epoch says what a row was at the commit", "shard/journal.go", []string{"for k := 0; k <= len(j.sealed); k++ {", "for k := len(j.sealed); k >= 0; k-- {"}, 2},
	{"parities fold before the commit", "commit/committer.go", []string{"\t\tc.fold(s)\n", "", "c.prepared.Store(s.step)\n", "c.fold(s)\n\tc.prepared.Store(s.step)\n"}, 2},
	{"a delta is dropped", "commit/parity.go", []string{"if p.isUnbuilt(at) {\n\t\t\tcontinue", "if p.isUnbuilt(at) || slot%5 == 2 {\n\t\t\tcontinue"}, 2},
	{"a new rank takes its parities for built", "commit/rebuild.go", []string{"c.Begin(step, false)", "c.Begin(step, true)"}, 13},
	{"prepared before the deltas have come", "commit/committer.go", []string{"	come, err := c.link.counts(c.send.perRank)", "	c.prepared.Store(s.step)\n	come, err := c.link.counts(c.send.perRank)"}, 9},
	{"what was staged outlives a rollback", "commit/committer.go", []string{"	c.idle = append(c.idle, c.sealed...)\n	c.sealed = c.sealed[:0]\n	c.prepared.Store(step)", "	c.prepared.Store(step)"}, 1},
	{"prepared outlives a rollback", "commit/committer.go", []string{"	c.sealed = c.sealed[:0]\n	c.prepared.Store(step)\n", "	c.sealed = c.sealed[:0]\n"}, 21},
	{"lost rows are decoded from rows that are not committed", "commit/round.go", []string{"h.ReadCommitted(", "h.ReadWhole("}, 11},
	{"the survey misses rows", "commit/rebuild.go", []string{"may = p.marked(at, theirs)", "may = p.marked(at, theirs) && s%4 != 1"}, 6},
	{"the largest prepared epoch is committed", "train/commit.go", []string{"least = min(least, w.prepared)", "least = max(least, w.prepared)"}, 9},
	{"whole is what the last rank says", "train/commit.go", []string{"lost = lost || w.lost", "lost = w.lost"}, 13},
	{"caches are not written back before a seal", "train/commit.go", []string{"	if err := r.exchange.Settle(); err != nil {\n		return err\n	}\n	return r.seal(r.done)", "	return r.seal(r.done)"}, 1},
	{"the snapshot of the commit is given away", "train/commit.go", []string{"if s.step >= step {", "if s.step > step {"}, 2},
	{"rows are read before they are back", "train/commit.go", []string{"r.commits.Round(slots,", "r.commits.Round(nil,"}, 13},
	{"an evaluation reads what is not back", "train/loop.go", []string{"			if err := r.makeWhole(); err != nil {\n				return err\n			}\n", ""}, 16},
	{"dense weights are not rolled back", "train/recover.go", []string{"		r.s.Copy(p.Weights, mine.weights)\n", ""}, 2},
	{"dense state is not rolled back", "train/recover.go", []string{"		r.s.Copy(r.state, mine.state)\n", ""}, 2},
	{"the history is not rolled back", "train/recover.go", []string{"r.history.upTo(s.committed)", "r.history.upTo(r.done)"}, 2},
	{"the first rank says what is committed", "train/recover.go", []string{"stands.committed = max(stands.committed, int64(w[1]))", "stands.committed = max(stands.committed, int64(all[0][1]))"}, 8},
	{"a rank that was given a commit is taken for a new one", "train/recover.go", []string{"	if err == nil {\n		r.phase = phaseTraining\n	}\n", ""}, 1305},
	{"trainers alone have the dense part", "train/commit.go", []string{"return id <= j.cfg.EC.R }", "return j.roles.trains(id) && id <= j.cfg.EC.R }"}, 44},
	{"an epoch is sealed while updates are under way", "lrpp/exchange.go", []string{"	if err := x.delayed.wait(); err != nil {\n		return err\n	}\n	if err := x.between(st.number); err != nil {\n		return err\n	}\n",
		"	if err := x.between(st.number); err != nil {\n		return err\n	}\n	if err := x.delayed.wait(); err != nil {\n		return err\n	}\n"}, 21},
}

// soon is how many runs a mutation may pass.
const soon = 100

// Every mutation is caught.
func TestMutations(t *testing.T) {
	if !*mutate {
		t.Skip("-mutations is not given; make sim gives it")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) { m.check(t, root) })
	}
}

// failedSeed is where ecrec sim says which run went wrong.
var failedSeed = regexp.MustCompile(`ecrec sim --seed (\d+) --runs 1`)

// check builds ecrec with the mutation, in a file that lies over the one of the source,
// and runs it.
func (m *mutation) check(t *testing.T, root string) {
	dir := t.TempDir()
	file := filepath.Join(root, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mutant := string(text)
	for i := 0; i < len(m.change); i += 2 {
		if n := strings.Count(mutant, m.change[i]); n != 1 {
			t.Fatalf("%s has %q %d times, not once: the mutation is out of date", m.file, m.change[i], n)
		}
		mutant = strings.Replace(mutant, m.change[i], m.change[i+1], 1)
	}
	over := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: over}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{over: mutant, filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "ecrec")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, "./cmd/ecrec")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, "sim", "--seed", fmt.Sprint(m.seed), "--runs", fmt.Sprint(soon)).CombinedOutput()
	found := failedSeed.FindSubmatch(out)
	if err == nil || found == nil {
		t.Fatalf("%d runs from seed %d on do not notice: %v\n%s", soon, m.seed, err, out)
	}
	_, why, _ := strings.Cut(string(out), "seed "+string(found[1])+": ")
	why, _, _ = strings.Cut(why, "\n")
	t.Logf("seed %s: %s", found[1], why)
}
