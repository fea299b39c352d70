// Package baseline exchanges embedding rows as the systems do that the papers compare with: each idea once, on the kernels, the data
// order, the collectives and the transport of ecrec, in its step loop, so that only the idea differs.
//
// # Terms
//
// A row has a global number g (package placement): its owner is g mod n of n ranks. All ranks train, and own rows. A home is the rank
// that has the current value of a row between two steps, and updates it. A copy is a row that all ranks have, and that all
// update in the same way.
// A store is a rank's memory for rows that it is home of without being their owner, and for copies. An item is a row or, of Pooled,
// a lookup that a rank exchanges with its home in a step.
// A program lists the rows that all ranks exchange in each step, with their ends and times. It is planned before training, from
// the ids of all ranks, and is pure. An Exchange carries it out.
//
// Traffic is critical if a rank waits for it between the computations of two steps. The lists of a program are not sent, as a
// planner ahead of training would: none of the papers counts them as time of a step. Pooled sends its ids all the same: they take
// their time on the links, and are not counted as traffic. The step loop plans the steps of all systems as those of cache mode "none",
// so the lists of its requests also pass the links, beside the steps.
//
// # Systems
//
//	Pooled       TorchRec, and DLRM of Facebook Research: the owner of a table looks up, and sends a vector for each sample. Gradients
//	             return in the same way. The ids of the next step are sent while a step computes, as TorchRec's pipeline does. Here
//	             rows are dealt to owners in turn rather than by table, so that no owner is busier than others: stronger.
//	FBDLRM       Pooled; the ids are sent, and the samples are read and parsed, while nothing computes. Parsing is a wait of a given
//	             length for each sample. Dense gradients still move during the backward pass: stronger.
//	StaticHot    copies of the hottest rows on all ranks, with an all-reduce of their gradients; other rows as in cache mode "none".
//	             The caller chooses the rows; one that counts the lookups of the steps that it trains makes it stronger.
//	FAE          StaticHot, with hot batches, of samples that use only copies, and cold batches, of all others (Adnan et al., VLDB'22).
//	             FAE all-reduces all hot rows and moves them to and from the CPU between hot and cold batches; here only the ones that a
//	             batch uses, and never: stronger. FAE keeps cold rows on one CPU; here all ranks own some: stronger.
//	HET          a cache for each trainer; a cached row is read and updated there until it is more than a bound of updates behind
//	             (Miao et al., VLDB'22). Not exact. Caches have no limit here: stronger. See HET.
//	Replicated   BagPipe's first baseline: each row that the lookahead has a use of is a copy; all rows of a batch are all-reduced.
//	Partitioned  its second: such a row has one home among the trainers that use it first. The others fetch it and push gradients.
//	Placed       Partitioned, with each sample at the trainer where its rows are, as far as slices stay equal (PlaceSamples).
//
// # Invariants
//
//   - All but HET give the rows that the modes of package lrpp give for the same order of samples, bit for bit: gradients are summed
//     per rank in sample order, then in rank order, from +0.0. FAE and Placed change the order of samples.
//   - A program is a function of the ids. Every transfer has both ends: the receiver expects the rows that the sender lists.
//   - Optimizer state is not moved: rows are updated by SGD, as in BagPipe.
package baseline
