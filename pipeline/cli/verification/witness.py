"""Watches a run from beside it, through the hooks that torch and the engine have anyway."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from pipeline.cli.verification import generators, items
from pipeline.cli.verification.attributes import Attributes, Without, attributes_of, optimizers_own
from pipeline.cli.verification.conductor import NAME
from pipeline.cli.verification.digest import digest, rows_of, sketch
from pipeline.cli.verification.evidence import Entry, Evidence, Values
from pipeline.cli.verification.recorded_order import RecordedOrder
from pipeline.cli.verification.watched_position import WatchedPosition
from pipeline.engine.assembly import Assembly
from pipeline.engine.hook_bus import HookBus
from pipeline.engine.reader import Reader
from pipeline.engine.run_state import RunState

_IN_EVALUATION = ("dataset.", "objective", "metrics.")


class Witness:
    """Writes the evidence of one rank while the run goes on; it changes nothing.

    Args:
        look_after: the step after which components' attributes are noted, and those of hooks from then on.
    """

    def __init__(self, position: WatchedPosition, look_after: int | None) -> None:
        self.evidence = Evidence()
        self._position = position
        self._look_after = look_after
        self._step = 0
        self._evaluating = False
        self._reading = ""  # the dataset last read in an evaluation
        self._random_by = self._parameters_by = self._rates_by = ""  # who changed them last
        self._order: RecordedOrder | None = None
        self._called = False  # the model, in this microbatch
        self._updates = 0  # calls of the optimizer's step inside one another: that of a base class counts too

    def attach(self, assembly: Assembly, hooks: HookBus, state: RunState) -> None:
        """Begin to watch; everything is built and restored."""
        self._assembly, self._hooks, self._state = assembly, hooks, state
        self._names = {p: _own_name(name) for name, p in assembly.step_module.named_parameters()}
        self._trained = [p for p in self._names if p.requires_grad]
        self._keys = {part.key for part in assembly.experiment.parts()}
        self._missing = {self._names[p] for p in self._trained}
        self._logged: dict[str, str] = {}
        self._measured_at = dict(state.metrics_steps)
        self._logged_by: dict[str, str] = {}
        self._generators = generators.states()
        self._parameters = self._digest_parameters()
        self._rates = self._digest_rates()
        reader = assembly.data.train
        self.evidence.is_stream = not isinstance(reader, Reader)
        self.evidence.steps_per_epoch = assembly.steps_per_epoch
        self.evidence.measured = sorted({name for one in assembly.hooks for name in one.hook.measured})
        self.evidence.measuring = [f"hooks.{one.name}" for one in assembly.hooks if one.hook.measured]
        if isinstance(reader, Reader):
            self._order = RecordedOrder(reader.order)
            reader.order = self._order
        assembly.module.register_forward_pre_hook(self._before_microbatch)
        assembly.module.register_forward_hook(self._after_microbatch)
        assembly.model.register_forward_pre_hook(self._before_model, with_kwargs=True)
        assembly.model.register_forward_hook(self._after_model)
        assembly.optimizer.register_step_pre_hook(self._before_update)
        assembly.optimizer.register_step_post_hook(self._after_update)
        self._position.on_end = self._phase_ended

    def finish(self) -> Evidence:
        """All that was seen; then some samples are read again, which the run would notice."""
        self._phase_ended(self._position.phase, "")
        self._position.on_end = None
        self.evidence.items = items.read(self._assembly)
        self.evidence.without_gradient = sorted(self._missing) if self.evidence.values else []
        return self.evidence

    def _note(self, component: str, what: str, value: Any, *, shared: bool = False) -> None:
        self.evidence.trace.append(Entry(self._step, component, what, digest(value), shared))

    # What a component at work has moved, whatever it was called for.

    def _phase_ended(self, phase: str, following: str) -> None:
        component = phase if phase in self._keys else ""
        if not self._evaluating:
            self._note_generators(component)
        if component.startswith(("hooks.", "scheduler")):
            self._note_parameters(component)
            self._note_rates(component)
        if component.startswith("hooks."):
            self._note_logged(component)
        self._note_metrics()
        if following == "evaluation":
            self._evaluating = True
        elif self._evaluating and not following.startswith(_IN_EVALUATION):
            self._evaluating = False
        if self._evaluating and following.startswith("dataset."):
            self._reading = following

    def _note_generators(self, component: str) -> None:
        states = generators.states()
        names = generators.moved(self._generators, states)
        if names and self._step:  # before the first step the engine puts back what hooks have drawn
            self._random_by = component
            known = self.evidence.draws.setdefault(component, [])
            known += [name for name in names if name not in known]
            self._note(component, f"the global random state of {' and '.join(names)}", states)
        self._generators = states

    def _note_parameters(self, component: str) -> None:
        parameters = self._digest_parameters()
        if parameters != self._parameters:
            self._parameters, self._parameters_by = parameters, component
            self._note(component, "the parameters", parameters)

    def _note_rates(self, component: str) -> None:
        rates = self._digest_rates()
        if rates != self._rates:
            self._rates, self._rates_by = rates, component
            self._note(component, "the learning rate", rates, shared=True)

    def _note_logged(self, component: str) -> None:
        logged = self._state.logged
        for name, value in (*logged.recorded.items(), *logged.averaged.items()):
            now = digest(value)
            if self._logged.get(name) != now and name not in self.evidence.measured:
                self._logged[name], self._logged_by[name] = now, component
                self._note(component, f"the value {name}", value)

    def _note_metrics(self) -> None:
        for name, step in self._state.metrics_steps.items():
            if self._measured_at.get(name) == step or name in self.evidence.measured:
                continue
            self._measured_at[name] = step
            value, owner = self._state.metrics[name], self._owner_of(name)
            self.evidence.owners[name] = owner
            shared = name not in self._logged_by  # what a gated hook logs, one rank alone knows
            self._note(owner, f"the metric {name}", value, shared=shared)
            if self._step in self.evidence.values:
                self.evidence.values[self._step].metrics[name] = value

    def _owner_of(self, metric: str) -> str:
        """Who gave a value of metrics.jsonl."""
        dataset, _, name = metric.partition("/")
        experiment = self._assembly.experiment
        if metric in self._logged_by:
            return self._logged_by[metric]
        if dataset in experiment.datasets and name in experiment.metrics:
            return f"metrics.{name}"
        if dataset in experiment.datasets:
            return "objective"
        return self.rates_by if metric == "lr" else "model"

    # The step, in its order.

    def _before_microbatch(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self._position.step + 1 != self._step:
            self._begin_step()
        self._called = False
        self._note("dataset.train", "a batch", arguments[0])
        self._add_rows("batch", arguments[0])

    def _add_rows(self, name: str, value: Any) -> None:
        rows = self.evidence.values[self._step].rows
        added = rows_of(value)
        rows[name] = torch.cat([rows[name], added]) if name in rows else added

    def _begin_step(self) -> None:
        self._step = self._position.step + 1
        self._logged.clear()
        values = self.evidence.values[self._step] = Values(epoch=self._position.epoch)
        reader = self._assembly.data.train
        if self._order is not None and isinstance(reader, Reader):
            positions = reader.dealing.window(self._position.step_in_epoch)
            values.window = self._order.window(self._position.epoch, positions)
            world = self._hooks_world()
            values.share = values.window[world[0] :: world[1]]
            self._note("sampler", "the order of the samples", values.window, shared=True)
        self._generators = generators.states()
        self._note(self._random_by or "model", "the random states before the step", self._generators)
        parameters = self._digest_parameters()
        by = self._parameters_by or "model"
        self._note(by, "the parameters before the step", parameters, shared=True)
        self._parameters = parameters
        self._note("model", "the buffers before the step", list(self._assembly.step_module.buffers()))
        if attributes := self._attributes():
            self.evidence.attributes[self._step] = attributes

    def _hooks_world(self) -> tuple[int, int]:
        if isinstance(self._assembly.module, DistributedDataParallel):
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1

    def _before_model(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._position.phase == "objective":
            if not self._evaluating:
                self._note_generators("objective")
                if not self._called:
                    self._add_rows("inputs", (arguments, named))
            self._note(
                self._reading if self._evaluating else "objective",
                "what goes into the model",
                (arguments, named),
            )

    def _after_model(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if self._position.phase == "objective":
            if not self._evaluating:
                self._note_generators("model")
                if not self._called:
                    self._called = True
                    self._add_rows("outputs", output)
            self._note("model", "its output", output)

    def _after_microbatch(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        self._note("objective", "the loss and its weight", output)
        self.evidence.values[self._step].loss += float(output[0].detach())

    def _before_update(self, optimizer: Optimizer, *_: Any) -> None:
        self._updates += 1
        if self._updates > 1:
            return
        values = self.evidence.values[self._step]
        for parameter in self._trained:
            name, gradient = self._names[parameter], parameter.grad
            if gradient is None:
                continue
            self._missing.discard(name)
            owner = "objective" if name.startswith("objective.") else "model"
            self._note(owner, f"the gradient of {name}", gradient, shared=True)
            values.gradients[name] = sketch(gradient)
        values.learning_rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        self._note(self.rates_by, "the learning rate of the step", self._digest_rates(), shared=True)

    def _after_update(self, optimizer: Optimizer, *_: Any) -> None:
        self._updates -= 1
        if self._updates:
            return
        self._parameters, self._parameters_by = self._digest_parameters(), "optimizer"
        self._note("optimizer", "the parameters after the step", self._parameters, shared=True)
        values = self.evidence.values[self._step]
        values.parameters = {self._names[p]: sketch(p) for p in self._trained}

    @property
    def rates_by(self) -> str:
        """Who set the learning rate: what changed it last, or else the scheduler where there is one."""
        return self._rates_by or ("scheduler" if self._assembly.experiment.scheduler else "optimizer")

    def _digest_rates(self) -> str:
        groups = self._assembly.optimizer.param_groups
        return digest([{name: one for name, one in group.items() if name != "params"} for group in groups])

    def _digest_parameters(self) -> str:
        return digest([parameter.detach() for parameter in self._names])

    def _attributes(self) -> dict[str, Attributes]:
        """Before this step: of all components, of hooks alone, or of none."""
        if self._look_after is None:
            return {}
        hooks = {f"hooks.{one.name}": one.hook for one in self._assembly.hooks if one.name != NAME}
        parts: dict[str, Any] = {}
        if self._step in (1, self._look_after + 1):
            parts = self._parts() | hooks
        elif self._step > self._look_after + 1:
            parts = hooks
        return {key: attributes_of(part) for key, part in parts.items() if part is not None}

    def _parts(self) -> dict[str, Any]:
        """All components but hooks, as far as their attributes are their own."""
        assembly, scheduler = self._assembly, self._assembly.schedule.scheduler
        parts: dict[str, Any] = {
            "model": assembly.model,
            "objective": assembly.step_module.objective,
            "optimizer": Without(assembly.optimizer, optimizers_own()),
            "scheduler": Without(scheduler, {"optimizer"}) if scheduler else None,
            **{
                f"metrics.{name}": Without(metric, metric.states())
                for name, metric in assembly.metrics.items()
            },
        }
        reader = assembly.data.train
        if isinstance(reader, Reader):
            parts["sampler"] = self._order._order if self._order else None
            parts["dataset.train"] = reader.fetcher.dataset
        return parts


def _own_name(name: str) -> str:
    return name.removeprefix("model.")
