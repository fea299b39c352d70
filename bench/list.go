package bench

// All lists the benchmarks by name.
func All() []Bench {
	return []Bench{
		cacheBench,
		checkpointBench,
		collectivesBench,
		continuousBench,
		convertBench,
		driftBench,
		ecBench,
		exchangeBench,
		faultKindsBench,
		faultsBench,
		goodputBench,
		idealBench,
		incrementsBench,
		kernelsBench,
		loadBench,
		lossesBench,
		lostWorkBench,
		memoryBench,
		messagesBench,
		oracleBench,
		overheadBench,
		planBench,
		popularityBench,
		processesBench,
		protectionBench,
		rebuildBench,
		recoveryBench,
		requestsBench,
		restartBench,
		rowReadsBench,
		savesBench,
		sealedBench,
		serveBench,
		serversBench,
		sizesBench,
		skewBench,
		streamBench,
		streamCostBench,
		tierBench,
		tieredBench,
		timelineBench,
		torchRecBench,
		trainBench,
	}
}

// Find finds a benchmark by name.
func Find(name string) (Bench, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return Bench{}, settingError("unknown benchmark %q; want %s", name, oneOf(names))
}
