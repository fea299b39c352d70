package baseline

// Pooled plans the steps of TorchRec: see the package doc.
func Pooled(s *Stream, steps int) *Program {
	p := &Program{Ranks: s.Place.Owners, PerLookup: true, SendsIDs: true}
	for t := range steps {
		rows := make([][]int32, p.Ranks)
		for r := range rows {
			rows[r] = s.lookupsOf(t, r)
		}
		p.addParts(planParts(rows, s.ownerOf), (*Part).groupLookups)
	}
	return p
}

// FBDLRM plans the steps of DLRM of Facebook Research: see the package doc.
func FBDLRM(s *Stream, steps int) *Program {
	p := Pooled(s, steps)
	p.Inline = true
	return p
}

// addParts adds a step that has parts only.
func (p *Program) addParts(parts []Part, group func(*Part)) []Step {
	step := make([]Step, p.Ranks)
	for r := range step {
		group(&parts[r])
		step[r].Part = parts[r]
	}
	p.Steps = append(p.Steps, step)
	return step
}
