package follow

// Offer calls Options.Idle, if the model is that of the newest View. It may be called after Run has ended without an error.
func (f *Follower) Offer() {
	if m := f.model; f.o.Idle != nil && m != nil && !m.fresh && m.want != "" {
		f.o.Idle()
	}
}

// publishFresh passes a model that was loaded to its readers.
func (f *Follower) publishFresh() error {
	if f.model == nil || !f.model.fresh {
		return nil
	}
	return f.publish()
}

// publish passes the model to its readers, if its digest was compared.
func (f *Follower) publish() error {
	m := f.model
	if f.o.Publish == nil || m.want == "" {
		return nil
	}
	weights, _ := m.model.DenseBytes()
	err := f.o.Publish(&View{Step: m.step, Lineage: m.at[0].Lineage, Digest: m.want, Written: m.written, About: m.About, Model: m.model,
		Dense: m.dense[:weights], Shards: m.shards, Changed: m.changed, Reset: m.reset, Fresh: m.fresh})
	if err != nil {
		return err
	}
	m.fresh = false
	for owner := range m.changed {
		m.changed[owner], m.reset[owner] = m.changed[owner][:0], false
	}
	return nil
}
