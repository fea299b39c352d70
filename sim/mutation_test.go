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

var mutate = flag.Bool("mutations", false, "have TestMutations build and run all of them, not some")

// mutation is a broken step of a protocol: texts of one file, and what they become.
// Runs from a seed on show it, soon.
type mutation struct {
	name, file string
	change     []string // old, new, old, new ...
	seed       uint64
	mode       string // of the runs; empty: the seeds'
}

var mutations = []mutation{
	{"a pre-image is skipped", "shard/journal.go", []string{"j.fresh = append(j.fresh, slot)", "if slot%3 != 1 {\nj.fresh = append(j.fresh, slot)\n}"}, 2, ""},
	{"a rollback leaves the epoch under way", "shard/journal.go", []string{"append(slices.Clone(j.sealed[keep:]), j.active)", "slices.Clone(j.sealed[keep:])"}, 2, ""},
	{"epochs are undone oldest first", "shard/journal.go", []string{"for i := len(undone) - 1; i >= 0; i-- {", "for i := range undone {"}, 5, ""},
	{"the newest epoch says what a row was at the commit", "shard/journal.go", []string{"for k := 0; k <= len(j.sealed); k++ {", "for k := len(j.sealed); k >= 0; k-- {"}, 12, ""},
	{"parities fold before the commit", "commit/parity.go", []string{"			if a.kind == fold {\n				p.fold(s)\n			}\n", "", "	p.arrived.Store(s.step)\n	return", "	p.fold(s)\n	p.arrived.Store(s.step)\n	return"}, 5, ""},
	{"a delta is dropped", "commit/parityrows.go", []string{"if p.isUnbuilt(at) {\n			continue", "if p.isUnbuilt(at) || slot%5 == 2 {\n			continue"}, 2, ""},
	{"a new rank takes its parities for built", "commit/rebuild.go", []string{"c.Begin(step, false)", "c.Begin(step, true)"}, 5, ""},
	{"prepared before the deltas have come", "commit/parity.go", []string{"	come, err := p.link.counts(p.out.perRank", "	p.arrived.Store(s.step)\n	come, err := p.link.counts(p.out.perRank"}, 2, ""},
	{"what was staged outlives a rollback", "commit/holder.go", []string{"		for _, step := range h.epochs {\n			do = append(do, action{drop, step})\n		}\n		*h = holder{prepared: e.step, epochs: h.epochs[:0]}\n", "		h.prepared = e.step\n"}, 5, ""},
	{"prepared outlives a rollback", "commit/parity.go", []string{"	p.carryOut(event{kind: rolled, step: step})\n	p.arrived.Store(step)\n", "	p.carryOut(event{kind: rolled, step: step})\n"}, 5, ""},
	{"lost rows are decoded from rows that are not committed", "commit/round.go", []string{"h.ReadCommitted(", "h.ReadWhole("}, 5, ""},
	{"the survey misses rows", "commit/rebuild.go", []string{"				set.set(s)\n", "				if s%4 != 1 {\n					set.set(s)\n				}\n"}, 5, ""},
	{"the largest prepared epoch is committed", "commit/decision.go", []string{"least = min(least, prepared)", "least = max(least, prepared)"}, 9, ""},
	{"whole is what the last rank says", "train/commit.go", []string{"slices.ContainsFunc(r.ctl.words, func(w word) bool { return w.lost })", "slices.ContainsFunc(r.ctl.words[len(r.ctl.words)-1:], func(w word) bool { return w.lost })"}, 5, ""},
	{"caches are not written back before a seal", "train/commit.go", []string{"	if err := r.exchange.Settle(); err != nil {\n		return err\n	}\n	return r.seal(r.done)", "	return r.seal(r.done)"}, 5, ""},
	{"the snapshot of the commit is given away", "train/commit.go", []string{"if s.step >= step {", "if s.step > step {"}, 2, ""},
	{"rows are read before they are back", "train/commit.go", []string{"r.commits.Round(slots,", "r.commits.Round(nil,"}, 5, ""},
	{"an evaluation reads what is not back", "train/loop.go", []string{"			if err := r.makeWhole(); err != nil {\n				return err\n			}\n", ""}, 29, ""},
	{"dense weights are not rolled back", "train/recover.go", []string{"		r.s.Copy(p.Weights, mine.weights)\n", ""}, 2, ""},
	{"dense state is not rolled back", "train/recover.go", []string{"		r.s.Copy(r.state, mine.state)\n", ""}, 2, ""},
	{"the history is not rolled back", "train/recover.go", []string{"r.history.upTo(s.committed)", "r.history.upTo(r.done)"}, 44, ""},
	{"the first rank says what is committed", "train/recover.go", []string{"stands.committed = max(stands.committed, int64(w[1]))", "stands.committed = max(stands.committed, int64(all[0][1]))"}, 5, ""},
	{"trainers alone have the dense part", "train/commit.go", []string{"return id <= j.cfg.EC.R }", "return j.roles.trains(id) && id <= j.cfg.EC.R }"}, 89, ""},
	{"an epoch is sealed while updates are under way", "lrpp/exchange.go", []string{"	if err := x.delayed.wait(); err != nil {\n		return err\n	}\n	if err := x.between(st.number); err != nil {\n		return err\n	}\n",
		"	if err := x.between(st.number); err != nil {\n		return err\n	}\n	if err := x.delayed.wait(); err != nil {\n		return err\n	}\n"}, 19, ""},
	{"deltas of an epoch are folded twice", "commit/parity.go", []string{"				p.fold(s)\n", "				p.fold(s)\n				p.fold(s)\n"}, 1, ""},
	{"memory of staged deltas is never used again", "commit/parity.go", []string{"if n := len(p.idle); n > 0 {", "if n := len(p.idle); n > 9 {"}, 1, ""},
	{"memory of pre-images is never used again", "shard/journal.go", []string{"if n := len(j.idle); n > 0 {", "if n := len(j.idle); n > 9 {"}, 1, ""},
	{"snapshots are kept for ever", "train/commit.go", []string{"if s.step >= step {", "if s.step >= 0 {"}, 1, ""},
	{"a rank that was made anew has lost nothing", "train/recover.go", []string{"loss = r.lossOfAll(id)", "_ = r.lossOfAll(id)"}, 5, ""},
	{"a rank that was made anew takes itself for one that has trained", "train/rank.go", []string{"r = &rank{job: j, id: id,", "r = &rank{phase: phaseTraining, job: j, id: id,"}, 1, ""},
	{"what others have lost counts once for two ranks of a process", "train/recover.go", []string{"		stands.lost = append(stands.lost, loss)\n", "		if id > 0 && phase(w[0]) == phaseFresh && stands.lost[id-1].Rows > 0 {\n			loss.Rows = 0\n		}\n		stands.lost = append(stands.lost, loss)\n"}, 24, ""},
	{"a repeated frame is one more", "transport/inbound.go", []string{" || h.sequence != in.sequence", ""}, 5071, ""},
	{"a garbled payload is believed", "transport/inbound.go", []string{"got != in.h.sum", "got != in.h.sum && n < 0"}, 56, ""},
	{"a garbled header is believed", "transport/frame.go", []string{"got != want {", "got != want && b[0] == 0 {"}, 173, ""},
	{"what a world leaves goes on", "train/generation.go", []string{"	r.base.Close()\n", ""}, 1, ""},
	{"a row that the step before updates comes early", "oracle/admit.go", []string{"later[i>>6] |= 1 <<", "later[i>>6] |= 0 <<"}, 5, ""},
	{"new ranks begin anew where nobody has the commit any more", "train/recover.go", []string{"case (has[phaseJoining] || r.job.world.Trained) && !has[phaseBegun]:", "case false:"}, 67, Safety},
	{"a job all of whose workers are lost begins anew", "train/recover.go", []string{"(has[phaseJoining] || r.job.world.Trained) &&", "has[phaseJoining] &&"}, 67, Safety},
	{"what repairs rows ends before what moves them", "train/generation.go", []string{"	r.base.Close()\n	if r.commits != nil {\n		r.commits.Leave()\n	}\n", "	if r.commits != nil {\n		r.commits.Leave()\n	}\n	r.base.Close()\n"}, 130, ""},
	{"a rank that was given a commit is taken for a new one", "train/recover.go", []string{"	if err == nil {\n		r.phase = phaseTraining\n	}\n", ""}, 734, ""},
	{"a fall back that was cut short is forgotten", "train/recover.go", []string{"r.phase, r.beyond = phaseFalling, beyond", "r.beyond = beyond"}, 886, Safety},
	{"rows of before a fall back stay", "train/recover.go", []string{"	r.shard.Reset()\n	r.done, r.saved", "	r.done, r.saved"}, 192, Safety},
	{"commits of before a fall back stay", "train/recover.go", []string{"	if err := r.commits.Clear(); err != nil {\n		return err\n	}\n", ""}, 1, Safety},
	{"snapshots of before a fall back stay", "train/commit.go", []string{"	r.forgetSnapshots() // of what a fall to a checkpoint gave up\n", ""}, 1, Safety},
	{"parities of a checkpoint are taken for built", "train/commit.go", []string{"drawn := r.done == 0 && r.job.cfg.Model.InitFrom == \"\"", "drawn := true"}, 1, Safety},
	{"the dense part goes back to the newest snapshot", "train/recover.go", []string{"r.snapshots[i].step == s.committed", "r.snapshots[i].step >= s.committed"}, 5, ""},
	{"training goes on behind the commit", "train/recover.go", []string{"r.done, r.saved, r.evaluated = s.committed,", "r.done, r.saved, r.evaluated = s.hit-1,"}, 2, ""},
	{"an epoch is trained again that is committed", "train/recover.go", []string{"r.done, r.saved, r.evaluated = s.committed,", "r.done, r.saved, r.evaluated = max(0, s.committed-int64(r.job.cfg.EC.CommitEvery)),"}, 5, ""},
	{"an evaluation is made again that is in the history", "train/recover.go", []string{"		r.evaluated = max(r.evaluated, e.Step)\n", "		_ = e\n"}, 12, ""},
	{"who would tell the losses should rank 0 be lost has none", "train/history.go", []string{"return id == 0 || j.protects() && j.snaps(id)", "return id == 0"}, 5, ""},
	{"servers' snapshots of the dense part are old", "train/commit.go", []string{"func (r *rank) seal(step int64) error {\n	if err := r.shareDense(); err != nil {\n		return err\n	}\n", "func (r *rank) seal(step int64) error {\n"}, 89, ""},
	{"the end does not wait until all is back", "train/job.go", []string{"		r.makeWhole,\n", ""}, 12, ""},
	{"rows of the first step after a recovery are read before they are back", "lrpp/exchange.go", []string{"		if x.repairs() {\n			if err := x.repairFor(st.Early.Slots", "		if false {\n			if err := x.repairFor(st.Early.Slots"}, 9, ""},
	{"rows that a cache fetches first are read before they are back", "lrpp/cache.go", []string{"		if c.x.repairs() {\n			if err := c.x.repairFor(st.cache.early.slots", "		if false {\n			if err := c.x.repairFor(st.cache.early.slots"}, 5, ""},
	{"rows come early before they are back", "lrpp/exchange.go", []string{"	repair := next != nil && x.repairs()\n", "	repair := next != nil && x.repairs() && x.step%2 == 0\n"}, 25, ""},
	{"a row leaves a cache before its last update", "lrpp/cache.go", []string{"	d := &c.delayed\n	if err := d.push(&u.plan.later, u.sums)", "	d := &c.delayed\n	if err := d.leave(&u.plan.leave); err != nil {\n		return err\n	}\n	if err := d.push(&u.plan.later, u.sums)", "	return d.leave(&u.plan.leave)\n", "	return nil\n"}, 1, ""},
	{"the deltas of a rank travel while it seals the next", "commit/committer.go", []string{"	if err := c.wait(); err != nil {\n		return err\n	}\n	if err := c.o.chaos(step, \"travelled\")", "	if err := c.o.chaos(step, \"travelled\")"}, 1, ""},
	{"an epoch is committed without meeting", "commit/committer.go", []string{"	if err := c.link.comm.Barrier().Wait(); err != nil {\n		return err\n	}\n", ""}, 44, ""},
	{"two epochs are sealed at a time", "commit/owner.go", []string{"const maxSealed = 1", "const maxSealed = 2"}, 21, ""},
	{"the epoch that waits for room is never sealed", "commit/owner.go", []string{"		return o.seal(o.commit(e.step))", "		return o.commit(e.step)"}, 1, ""},
	{"a rollback stops at the epoch that is sealed", "commit/committer.go", []string{"c.o.Shard.Rollback(0)", "c.o.Shard.Rollback(min(1, c.o.Shard.Journal().Sealed()))"}, 5, ""},
	{"who is prepared does not go forward to the commit", "commit/holder.go", []string{"		do = h.fold(e.step)\n		for", "		for"}, 19, ""},
	{"what has come is not counted when a world ends", "commit/parity.go", []string{"func (p *Parity) Roll(step int64) {\n	p.Prepared()\n", "func (p *Parity) Roll(step int64) {\n"}, 47, ""},
	{"what was encoded from is not marked", "commit/round.go", []string{"				c.parity.markRead(int64(asked[i].at), p.decoder.Reads[k])\n", "				_ = i\n"}, 12, ""},
	{"what was folded is not marked", "commit/parityrows.go", []string{"		p.mark(at, column.Column)\n", ""}, 5, ""},
	{"rows count as back when they are asked for", "commit/round.go", []string{"	x.urgent, b.urgent = urgent,", "	for _, slot := range urgent {\n		b.missing.set(int64(slot))\n		b.back(int64(slot))\n	}\n	urgent = urgent[:0]\n	x.urgent, b.urgent = urgent,"}, 29, ""},
	{"deltas of a world go on in the next", "train/generation.go", []string{"	if r.commits != nil {\n		r.commits.Leave()\n	}\n", ""}, 1, ""},
	{"an endpoint is left open", "train/generation.go", []string{"	_ = r.ep.Close()\n", ""}, 1, ""},
	{"connections of an older world are taken", "transport/handshake.go", []string{"	case theirs.generation != w.generation:", "	case theirs.generation > w.generation:"}, 196, ""},
	{"the register takes two worlds of one generation", "sim/register.go", []string{"w.generation != r.world.generation+1 || r.over", "w.generation < r.world.generation || r.over"}, 4, ""},
	{"a worker that was given up is not fenced", "sim/machine.go", []string{"w.seats[number].incarnation != p.incarnation)", "p.dead && w.seats[number].incarnation != p.incarnation)"}, 100, ""},
	{"two machines have one process", "sim/machine.go", []string{"		w.spares = w.spares[1:]\n", ""}, 8, ""},
	{"a machine that nobody hears goes on", "sim/machine.go", []string{"	case now-m.leased > m.c.lease()-m.c.heartbeat():\n		p.kill()\n", ""}, 3, ""},
	{"a process that is started again is not told from the one before", "sim/machine.go", []string{"			because(\"process %d has died\", p)\n			s.incarnation++\n", "			because(\"process %d has died\", p)\n"}, 1, ""},
	{"who is done in a world is done in the next", "sim/register.go", []string{"	if generation != r.world.generation {\n		return\n	}\n", ""}, 128, ""},
}

var soon = flag.Int("soon", 100, "how many runs a mutation may pass in TestMutations")

// some are those that every test run builds, as a sample.
var some = map[string]bool{"a pre-image is skipped": true, "the register takes two worlds of one generation": true}

// Every mutation is caught.
func TestMutations(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			mutant := m.text(t, root)
			if *mutate || some[m.name] && !testing.Short() {
				m.check(t, root, mutant)
			}
		})
	}
}

// text is the mutated file.
func (m *mutation) text(t *testing.T, root string) string {
	text, err := os.ReadFile(filepath.Join(root, m.file))
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
	return mutant
}

// failedSeed is how TestRuns says which run went wrong.
var failedSeed = regexp.MustCompile(`seed (\d+): (.*)`)

// check builds this package's tests over the mutated file, and has them run seeds.
func (m *mutation) check(t *testing.T, root, mutant string) {
	dir := t.TempDir()
	over := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): over}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{over: mutant, filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "mutant.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, "./sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, "-test.run", "^TestRuns$", "-seed", fmt.Sprint(m.seed), "-runs", fmt.Sprint(*soon), "-mode", m.mode, "-first").CombinedOutput()
	found := failedSeed.FindSubmatch(out)
	if err == nil || found == nil {
		t.Fatalf("%d runs from seed %d on do not notice: %v\n%s", *soon, m.seed, err, out)
	}
	t.Logf("seed %s: %s", found[1], found[2])
}
