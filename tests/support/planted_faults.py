"""The planted faults: which part has it, which checks must fail by it, and what is to be said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PLANTED = [
    Path(__file__).parent / "parts" / f"planted_{name}.py" for name in ("data", "training", "watching")
]
"""The local files that register the parts."""


@dataclass(frozen=True)
class Fault:
    """A planted fault, and what is to be said of it."""

    checks: str
    """Names of the checks that fail, no others; by any of which the words are said."""
    component: str
    sets: tuple[str, ...]
    words: tuple[str, ...]
    ranks: int = 1
    """The larger world size."""
    always: bool = False
    """Not in a soak alone."""

    def __str__(self) -> str:
        return self.sets[0].replace("type=", "")


def fault(checks, component, *words, sets, ranks=1, always=False):
    sets = (sets,) if isinstance(sets, str) else sets
    return Fault(checks, component, sets, words, ranks, always)


OF_DATASETS = [
    fault(
        "items",
        "dataset.train",
        "sample 0 is another when it is read again",
        "Jittered draws from numpy's global generator in reading a sample",
        "set loader.sample_seeds = true",
        sets=("dataset.train={type='jittered'}", "loader.sample_seeds=false"),
        always=True,
    ),
    fault(
        "items resume",
        "dataset.train",
        "sample 0 is another when it is read again: reading changes its attribute generator",
        sets="dataset.train={type='own_generator'}",
    ),
    fault(
        "items resume invariance",
        "dataset.eval",
        "reading changes its attribute generator",
        sets="dataset.eval={type='own_generator'}",
        ranks=2,
    ),
    fault(
        "determinism invariance",
        "dataset.train",
        "at step 1 a second run differs in a batch",
        "no generator without a seed",
        sets="dataset.train={type='another_each_time'}",
        ranks=2,
    ),
    fault(
        "determinism",
        "dataset.train",
        "a second run differs in a batch",
        "it depends on how strings are hashed",
        sets="dataset.train={type='hashed'}",
        always=True,
    ),
    fault(
        "invariance",
        "dataset.train",
        "its sample 0 is another in rank 1 of 2 processes",
        "neither the rank nor the number of processes",
        sets="dataset.train={type='by_rank'}",
        ranks=2,
    ),
    fault(
        "items",
        "dataset.train",
        "its sample 0 is another when a worker process reads it",
        sets="dataset.train={type='by_worker'}",
    ),
    fault(
        "items",
        "dataset.train",
        "a worker process cannot read it: RuntimeError: the file is open in another process",
        sets="dataset.train={type='not_to_be_sent'}",
    ),
    fault(
        "once",
        "dataset.train",
        "of its 40 samples 1 are in neither of two shards, and 1 are there that should not be",
        "let shard(index, count) give every sample to exactly one",
        sets="dataset.train={type='overlapping_stream'}",
        ranks=2,
        always=True,
    ),
    fault(
        "resume",
        "dataset.train",
        "at step 3 the killed and resumed run differs in a batch",
        "state_dict of an iterable one's shard",
        sets="dataset.train={type='forgetful_stream'}",
    ),
    fault(
        "runs",
        "dataset.train",
        "with 2 processes",
        "is an iterable dataset that cannot say how it splits",
        sets="dataset.train={type='unsplit_stream'}",
        ranks=2,
    ),
]
OF_MODELS_AND_OBJECTIVES = [
    fault(
        "resume",
        "model",
        "at step 3 the killed and resumed run differs in its output",
        "its attribute calls was 2 after step 2, and is 0 after the resume",
        "register_buffer",
        sets="model={type='counting'}",
        always=True,
    ),
    fault(
        "determinism invariance",
        "model",
        "at step 1 a second run differs in its output",
        sets="model={type='drawing'}",
        ranks=2,
    ),
    fault(
        "gradients runs",
        "model",
        "no loss depends on its parameters spare.bias, spare.weight",
        "model.freeze",
        sets="model={type='with_a_spare_head'}",
        ranks=2,
        always=True,
    ),
    fault(
        "invariance",
        "model",
        "the gradient of step 1 differs with 2 processes",
        "from the same inputs the model gives other outputs for the same samples",
        sets="model={type='scaled_by_ranks'}",
        ranks=2,
    ),
    fault(
        "invariance",
        "objective",
        "the gradient of step 1 differs with 2 processes",
        "give the sum of the loss over the samples, not its mean",
        sets="objective={type='mean_loss'}",
        ranks=2,
        always=True,
    ),
    fault(
        "resume",
        "objective",
        "at step 3 the killed and resumed run differs in the loss",
        "its attribute calls was 2",
        sets="objective={type='annealed'}",
    ),
]
OF_THE_UPDATE = [
    fault(
        "determinism invariance",
        "optimizer",
        "at step 1 a second run differs in the parameters after the step",
        sets="optimizer={type='timed'}",
        ranks=2,
    ),
    fault(
        "resume",
        "optimizer",
        "at step 3 the killed and resumed run differs in the parameters after the step",
        "keep what changes in optimizer.state",
        sets="optimizer={type='lookahead'}",
    ),
    fault(
        "invariance",
        "optimizer",
        "the learning rate of step 1 is [0.1], and [0.2] with 2 processes",
        sets="optimizer={type='scaled_lr'}",
        ranks=2,
    ),
    fault(
        "invariance",
        "optimizer",
        "from equal gradients the parameters after step 1 differ with 2 processes",
        sets="optimizer={type='scaled_steps'}",
        ranks=2,
    ),
    fault(
        "resume",
        "scheduler",
        "at step 3 the killed and resumed run differs in the learning rate",
        sets="scheduler={type='counting_steps'}",
    ),
    fault(
        "invariance",
        "scheduler",
        "the learning rate of step 1 is [0.1], and [0.2] with 2 processes",
        sets="scheduler={type='scaled_by_size'}",
        ranks=2,
    ),
    fault(
        "determinism once invariance",
        "sampler",
        "a second run differs in the order of the samples",
        sets="sampler={type='unseeded'}",
        ranks=2,
    ),
    fault(
        "once invariance",
        "sampler",
        "samples [1, 3, 5, 7] are missing and [2, 4, 6, 8] are too many",
        "give the same order in every process",
        sets="sampler={type='ranked'}",
        ranks=2,
        always=True,
    ),
    fault(
        "once resume",
        "sampler",
        "at position 0 of epoch 0 it gives sample 17, and 16 when asked again",
        "a pure function",
        sets="sampler={type='drawn_on_the_way'}",
    ),
]
OF_METRICS_AND_HOOKS = [
    fault(
        "state resume",
        "metrics.undeclared",
        "its value is 6.62474, and 1.65618 in a second evaluation",
        "update changes the attribute batches, which add_state does not declare",
        "differs in the metric eval/undeclared: its attribute batches was",
        sets="metrics.undeclared={}",
    ),
    fault(
        "state resume",
        "metrics.stateless",
        "it declares no state, so several processes cannot join what they have seen",
        "declare what changes with add_state",
        sets="metrics.stateless={}",
    ),
    fault(
        "runs state",
        "metrics.unreduced",
        "4 steps with 2 processes",
        sets="metrics.unreduced={}",
        ranks=2,
    ),
    fault(
        "state invariance",
        "metrics.mean_of_means",
        "its value is 1.12278, and 2.24556 where its states are joined from two processes",
        sets="metrics.mean_of_means={}",
        ranks=2,
        always=True,
    ),
    fault(
        "state resume",
        "metrics.never_reset",
        "and 13.2495 in a second evaluation of the same",
        sets="metrics.never_reset={}",
    ),
    fault(
        "state",
        "hooks.counting_hook",
        "its attribute steps was 2 after step 2, and is 0 after the resume",
        "return what changes from state_dict",
        sets="hooks.counting_hook={}",
        always=True,
    ),
    fault(
        "resume state",
        "hooks.decaying",
        "at step 3 the killed and resumed run differs in the parameters",
        "its attribute factor was",
        sets="hooks.decaying={}",
    ),
    fault(
        "invariance",
        "hooks.clamping_on_main",
        "rank 1 differs from rank 0 in the parameters",
        'ranks = "all"',
        sets="hooks.clamping_on_main={}",
        ranks=2,
        always=True,
    ),
    fault(
        "invariance",
        "hooks.halving_on_main",
        "rank 1 differs from rank 0 in the learning rate",
        sets="hooks.halving_on_main={}",
        ranks=2,
    ),
    fault(
        "determinism",
        "hooks.kicking",
        "at step 1 a second run differs in the parameters",
        sets="hooks.kicking={}",
    ),
    fault(
        "resume",
        "hooks.forgetful_on_load",
        "resumed after step 2 with one process fails after step 2: KeyError: 'count'",
        sets="hooks.forgetful_on_load={}",
    ),
]
FAULTS = [*OF_DATASETS, *OF_MODELS_AND_OBJECTIVES, *OF_THE_UPDATE, *OF_METRICS_AND_HOOKS]
