"""What a component of each kind must do to keep the promises."""

from __future__ import annotations

REPEATABLE = {
    "model": "draw from torch's global generator alone, build from the arguments alone, and let nothing "
    "depend on time, on the order of a set or on a kernel that is not deterministic",
    "dataset": "let a sample depend on its index and on what it draws from the global generators, which the "
    "engine seeds: no generator without a seed, no order of a set, no time",
    "objective": "draw from torch's global generator alone, and let nothing depend on time or on what the "
    "process is",
    "optimizer": "draw nothing, or from a generator that its state_dict holds",
    "scheduler": "let the rate depend on the number of steps alone",
    "sampler": "let indices(epoch, start, stop) depend on its arguments and the seed alone",
    "metric": "let compute depend on the declared states alone",
    "hook": "leave training as it is, or change it by what all processes know alike",
}

RESUMABLE = {
    "model": "keep what changes in training in a buffer (register_buffer), or give it with get_extra_state",
    "dataset": "let a sample depend on its index, the epoch and the engine's seeds alone, not on what was "
    "read before",
    "objective": "make it an nn.Module that keeps what changes in training in a buffer",
    "optimizer": "keep what changes in optimizer.state or in the groups, which state_dict has",
    "scheduler": "give state_dict and load_state_dict all that changes",
    "sampler": "let indices(epoch, start, stop) be a pure function: of its arguments and the seed, not of "
    "earlier calls",
    "metric": "declare what changes with add_state",
    "hook": "return what changes from state_dict, and take it back in load_state_dict",
}
