package train

// addTo sets the fields of a status that are about protection.
func (p *protection) addTo(s *status) {
	if p != nil {
		s.prepared, s.degraded = p.commits.Prepared(), p.lossLeft().Any()
		s.seal = p.unsentReport()
		if p.rebuilding {
			left := p.lossLeft()
			p.rebuild.report.left = (left.Rows + left.Parities) * int64(p.rank.job.bytesPerRow())
			s.rebuild = &p.rebuild.report
		}
		p.log.addTo(s)
		p.stream.addTo(s)
	}
}

// takeStatus takes the status of all ranks, before they decide commits.
func (p *protection) takeStatus(all []status) error {
	if p == nil {
		return nil
	}
	p.log.takeStatus(all)
	p.stream.takeStatus(all)
	if all[0].seal == nil {
		return nil
	}
	p.log.received(p.rank.conns.ctl.seals)
	p.stream.received(p.rank.conns.ctl.seals)
	if p.digests.rows == nil {
		return nil
	}
	return p.digests.received(p.rank.conns.ctl.seals, p.rank.job.tolerated()+1)
}

// unsentReport is the report of the newest seal, if it was not sent yet in this world. It is nil on all ranks or on none, since all
// seal at the same steps.
func (p *protection) unsentReport() *sealReport {
	report := sealReport{durable: p.log.durableHere(), streamed: p.stream.streamedHere()}
	switch seal := p.commits.Sealed(); {
	case p.digests.rows != nil:
		part := p.digests.unsent()
		if part == nil {
			return nil
		}
		report.part = *part
	case p.log.store == nil || p.log.sent == seal:
		return nil
	default:
		p.log.sent = seal
	}
	return &report
}

// noteCommits reports the commits up to a step, to the launcher too.
func noteCommits(p *protection, step int64) {
	p.reportCommits(step)
	if report := p.rank.job.world.Committed; report != nil && p.parity != nil {
		report(!p.recovery.open)
	}
}
