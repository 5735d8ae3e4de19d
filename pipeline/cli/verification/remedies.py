"""What a component of each kind must do to keep the promises."""

from __future__ import annotations

REPEATABLE = {
    "model": "draw from torch's global generator alone, build from the arguments alone, and let nothing "
    "depend on time, on the order of a set or on a kernel that is not deterministic",
    "dataset": "let a sample depend on its index and on what it draws from the global generators, which the "
    "engine seeds: no generator without a seed, no order of a set, no time",
    "objective": "draw from torch's global generator alone, and let nothing depend on time or on the process",
    "optimizer": "draw nothing, or from a generator that its state_dict holds",
    "scheduler": "let the rate depend on the number of steps alone",
    "sampler": "let indices(epoch, start, stop) depend on its arguments and the seed alone",
    "metric": "let compute depend on the declared states alone",
    "hook": "leave training as it is, or change it by what every run has alike",
}
"""So that the same comes about again."""

INVARIANT = {
    "model": "let an output depend on its own sample, and on neither the rank nor the number of processes",
    "dataset": "let a sample depend on its index, and on neither the rank nor the number of processes: the "
    "engine shares the samples out",
    "objective": "let the loss be a sum over the samples, and depend on neither the rank nor the number of "
    "processes",
    "optimizer": "let nothing depend on the number of processes: the global batch does not grow with them",
    "scheduler": "let the rate depend on the number of steps alone, which is that of global batches",
    "sampler": "give the same order in every process: the engine shares it out",
    "metric": "declare as states what can be joined over the processes, and compute the value from these",
    "hook": 'let a hook that changes training do so in every process alike: ranks = "all"',
}
"""So that the same comes about with any number of processes."""

RESUMABLE = {
    "model": "keep what changes in training in a buffer (register_buffer), or give it with get_extra_state",
    "dataset": "let a sample depend on its index, the epoch and the engine's seeds alone, not on what was "
    "read before; let the state_dict of an iterable one's shard say where it stands",
    "objective": "make it an nn.Module that keeps what changes in training in a buffer",
    "optimizer": "keep what changes in optimizer.state or in the groups, which state_dict has",
    "scheduler": "give state_dict and load_state_dict all that changes",
    "sampler": "let indices(epoch, start, stop) be a pure function: of its arguments and the seed, not of "
    "earlier calls",
    "metric": "declare what changes with add_state, with the reduction that joins it",
    "hook": "return what changes from state_dict, and take it back in load_state_dict",
}
"""So that a resumed run goes on as it was."""
