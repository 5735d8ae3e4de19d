"""The engine's own tables of the config, with their defaults: [train], [loader], [distributed].

Plain frozen dataclasses, so that the config can validate into them and the engine can take them
without knowing each other. The comments after a field are its documentation in docs/config.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal

from annotated_types import Ge, Gt

from pipeline.api.period import Period

Positive = Annotated[int, Ge(1)]

LENGTH_KEYS = frozenset({"train.epochs", "train.steps"})
"""The config keys that say how long a run is."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The table [train]: how long, in what batches, in what precision."""

    epochs: Positive | None = None
    """Passes over the training data; exactly one of epochs and steps."""
    steps: Positive | None = None
    """Optimizer steps; exactly one of epochs and steps."""
    global_batch_size: Positive
    """Samples of one optimizer step, over all ranks."""
    eval_batch_size: Positive | None = None
    """Samples of one evaluation batch, over all ranks; default: global_batch_size."""
    max_microbatch_size: Positive | None = None
    """At most so many samples per rank and forward pass; more is accumulated, exactly."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """fp32, or autocast to bf16, or to fp16 with a gradient scaler."""
    clip_grad_norm: Annotated[float, Gt(0)] | None = None
    """Clip the reduced gradient to this norm, once a step."""
    evaluate_every: Period = Period(1, "epoch")
    """How often every dataset but train is evaluated."""
    log_every: Period = Period(50, "step")
    """How often a row of metrics.jsonl is written, with the weighted mean since the last one."""
    compile: bool = False
    """torch.compile the model and the objective."""
    deterministic: bool = True
    """torch.use_deterministic_algorithms, and cuDNN without autotuning."""
    sync_batchnorm: bool = False
    """Batch norm over all ranks (CUDA only)."""
    same_rank_seeds: bool = False
    """Draw the same dropout masks on every rank."""
    stop_signals: tuple[Literal["TERM", "INT", "USR1", "USR2", "HUP"], ...] = ("TERM", "INT")
    """Signals that end the run after a checkpoint, with exit status 75."""

    def total_steps(self, steps_per_epoch: int | None) -> int | None:
        """Optimizer steps of the whole run; None where it is a number of epochs of unknown length."""
        if self.epochs is None or steps_per_epoch is None:
            return self.steps
        return self.epochs * steps_per_epoch


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """The table [loader]: how samples are read."""

    workers: Annotated[int, Ge(0)] = 0
    """Reading processes per rank; 0 reads in the training process."""
    drop_last: bool = False
    """Leave out the last global batch of an epoch where it is short."""
    prefetch: Positive = 2
    """Batches that each worker reads ahead."""
    pin_memory: bool | Literal["auto"] = "auto"
    """Page-locked host memory; auto: with CUDA."""
    sample_seeds: bool | Literal["auto"] = "auto"
    """Seed the random generators per sample; auto: datasets without __getitems__."""
    start_method: Literal["fork", "spawn", "forkserver"] = "fork"
    """How workers are started."""


@dataclass(frozen=True, kw_only=True)
class DistributedSettings:
    """The table [distributed]: devices, process group and DistributedDataParallel."""

    device: Literal["auto", "cuda", "cpu"] = "auto"
    """auto: CUDA where torch finds it, one device per local rank."""
    backend: Literal["auto", "nccl", "gloo"] = "auto"
    """auto: nccl with CUDA, else gloo."""
    timeout: timedelta = timedelta(minutes=10)
    """How long a rank waits for the others in a collective."""
    prepare_timeout: timedelta = timedelta(hours=1)
    """How long ranks wait for one another while components are built."""
    threads: Positive | Literal["auto"] = "auto"
    """Threads per rank; auto: cores of this process group / local ranks."""
    buffers: Literal["rank0", "mean"] = "rank0"
    """How buffers (batch-norm statistics) are made equal before evaluation and saving."""
    bucket_cap_mb: Annotated[float, Gt(0)] | None = None
    """DDP's bucket size in MiB; None: torch's default."""
    find_unused_parameters: bool = False
    """Allow parameters that a batch's loss does not depend on; costs a search in every step."""
    static_graph: bool = False
    """Promise DDP that every step has the same graph."""
    gradient_as_bucket_view: bool = True
    """Let gradients live in DDP's buckets, which saves a copy."""


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """One of [[optimizer.groups]]: parameters by pattern, and the options that differ for them."""

    params: tuple[str, ...]
    options: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WeightsSettings:
    """model.weights: where training starts from."""

    path: str
    """A safetensors file, absolute."""
    include: tuple[str, ...] = ()
    """Globs on parameter names; without any, the file must fit strictly."""
