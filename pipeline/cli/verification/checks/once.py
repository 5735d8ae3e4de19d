"""Whether every sample of the training order is read once, whatever the number of processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from pipeline.cli.verification.evidence import Evidence
from pipeline.cli.verification.finding import Blame, Check, Finding, judged
from pipeline.cli.verification.probes import Probed
from pipeline.cli.verification.remedies import INVARIANT, RESUMABLE
from pipeline.cli.verification.trial import processes

NAME, TITLE = "once", "every sample once"

_SHARDS = "let shard(index, count) give every sample to exactly one of count shares"


def check(blame: Blame, trials: Mapping[int, Sequence[Evidence]], probed: Probed) -> Check:
    """Compare what the ranks of each trial were dealt with the global batches of the smallest one.

    Args:
        trials: by world size.
        probed: what was found of the sampler, and of an iterable dataset's shards.
    """
    reference = trials[min(trials)][0]
    findings, notes = [], []
    for ranks in trials.values():
        steps = (_dealt(blame, reference, ranks, step) for step in reference.values)
        findings += list(islice(filter(None, steps), 1))  # the first says it
    repeated = _repeated(reference)
    if repeated:
        notes.append(f"sampler: it gives sample {repeated[0]} more than once in epoch {repeated[1]}")
    for troubles, remedy in ((probed.orders, RESUMABLE["sampler"]), (probed.streams, _SHARDS)):
        findings += [blame.finding(key, one.message, one.remedy or remedy) for key, one in troubles.items()]
    sizes = " and ".join(map(processes, trials))
    detail = f"the shares of {len(reference.values)} global batches with {sizes}; {_evaluated(reference)}"
    return judged(NAME, TITLE, detail, findings, tuple(notes))


def _dealt(blame: Blame, reference: Evidence, ranks: Sequence[Evidence], step: int) -> Finding | None:
    if reference.is_stream:
        return None
    expected = Counter(reference.values[step].window)
    shares = [rank.values[step].share for rank in ranks if step in rank.values]
    dealt = Counter(index for share in shares for index in share)
    if dealt == expected:
        return None
    twice, never = sorted((dealt - expected).elements()), sorted((expected - dealt).elements())
    message = (
        f"with {len(ranks)} processes the shares of global batch {step} are not that batch: samples "
        f"{never[:5]} are missing and {twice[:5]} are too many, since processes are given different orders"
    )
    return blame.finding("sampler", message, INVARIANT["sampler"])


def _repeated(evidence: Evidence) -> tuple[int, int] | None:
    """A sample that comes twice in an epoch, and the epoch."""
    by_epoch: dict[int, Counter[int]] = {}
    for one in evidence.values.values():
        by_epoch.setdefault(one.epoch, Counter()).update(one.window)
    for epoch, counts in by_epoch.items():
        for index, count in counts.most_common(1):
            if count > 1:
                return index, epoch
    return None


def _evaluated(evidence: Evidence) -> str:
    parts = [f"{few} of {all_} samples of {name}" for name, (few, all_) in evidence.samples.items()]
    return f"evaluated: {', '.join(parts)}" if parts else "nothing is evaluated"
