"""What is wrong with a config, and the lines that say so: a specification by examples.

Each example is a change of this config, as text after text to replace, and the lines it gives.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.api.kinds import Kind
from pipeline.cli.main import main
from pipeline.config.layers import read
from pipeline.errors import ConfigError
from pipeline.registry.registry import Registry
from small_config import CONFIG

P = "pipeline.toml"
OPTIMIZER = '[optimizer]\ntype = "adamw"\nlr = 0.01'
MODEL = CONFIG[: CONFIG.index("\n\n")]
TOP_LEVEL = (
    "name, seed, extends, unset, set, components, vars, model, dataset, objective, optimizer, scheduler, "
    "sampler, metrics, train, loader, distributed or hooks"
)
NAME = "a string without '/', at most 100 characters, not beginning with '.'"
COUNT, LR = "Annotated[int, Ge(1)]", "float | Tensor"
DOUBLED = "".join(f'k{n + 1} = "${{vars.k{n}}}${{vars.k{n}}}"\n' for n in range(16))
LENGTH = "exactly one of train.epochs and train.steps"


def name_of(group: str) -> str:
    return (
        f"expected a name that an installed package offers as pipeline.{group}, or that a local file "
        'registers and the config lists, as components = ["file.py"]'
    )


def known(kind: str) -> str:
    names = {line.name for line in Registry.discover().listing(Kind(kind))}
    return f"known names of the kind {kind}: {', '.join(sorted(names))}"


EDITS = {
    # the top level
    "unknown table": (("[train]", "[trian]"), [
        f"{P}:1:1: train: is missing; expected [train] with global_batch_size and {LENGTH}",
        f"{P}:22:2: trian: unknown key; did you mean 'train'?",
    ]),
    "nothing like it": (("[model]", "zebra = 1\n[model]"), [
        f"{P}:1:1: zebra: unknown key; expected {TOP_LEVEL}",
    ]),
    "misplaced at the top": (("[model]", "lr = 1\n[model]"), [
        f"{P}:1:1: lr: unknown key, which belongs under [optimizer]",
    ]),
    "misplaced in train": (("epochs = 2", "epochs = 2\nworkers = 2"), [
        f"{P}:24:1: train.workers: unknown key, which belongs under [loader]",
    ]),
    "misplaced in a component": (("lr = 0.01", "lr = 0.01\nprecision = 'bf16'"), [
        f"{P}:19:1: optimizer.precision: unknown key, which belongs under [train]",
    ]),
    "seed in train": (("epochs = 2", "epochs = 2\nseed = 2"), [
        f"{P}:24:1: train.seed: unknown key, which belongs to the top level",
    ]),
    "seed is text": (("[model]", "seed = '7'\n[model]"), [
        f'{P}:1:1: seed: got "7", a string; expected an integer in 0..2**63-1',
    ]),
    "seed is negative": (("[model]", "seed = -1\n[model]"), [
        f"{P}:1:1: seed: got -1, an integer; expected an integer in 0..2**63-1",
    ]),
    "seed is a boolean": (("[model]", "seed = true\n[model]"), [
        f"{P}:1:1: seed: got true, a boolean; expected an integer in 0..2**63-1",
    ]),
    "integer of 65 bits": (("[model]", "seed = 0x1_0000_0000_0000_0000\n[model]"), [
        f"{P}:1:1: seed: the integer does not fit in 64 bits; expected an integer in -2**63..2**63-1",
    ]),
    "name with a slash": (("[model]", "name = 'a/b'\n[model]"), [
        f'{P}:1:1: name: got "a/b"; expected {NAME}',
    ]),
    "name is a number": (("[model]", "name = 5\n[model]"), [
        f'{P}:1:1: name: got 5; expected {NAME}; quote it, as name = "..."',
    ]),
    "vars is no table": (("[model]", "vars = 3\n[model]"), [
        f"{P}:1:1: vars: got 3, an integer; expected a table",
    ]),
    "key with a dot": (("lr = 0.01", '"weight.decay" = 0.01'), [
        f"{P}:18:1: optimizer.weight.decay: 'weight.decay' is no usable key; "
        "expected a name without a dot, as keys are written with dots",
    ]),
    # components
    "model is text": ((MODEL, 'model = "mlp"'), [
        f'{P}:1:1: model: got "mlp", a string; expected a table',
    ]),
    "no model": ((MODEL, ""), [
        f'{P}:1:1: model: is missing; expected [model] with type = "..."',
    ]),
    "no training data": (("[dataset.train]", "[dataset.test]"), [
        f'{P}:7:2: dataset.train: is missing; expected [dataset.train] with type = "..."',
    ]),
    "no type": (('type = "mlp"\n', ""), [
        f"{P}:1:2: model.type: is missing; expected the name of a model",
    ]),
    "type is a number": (('type = "mlp"', "type = 3"), [
        f"{P}:2:1: model.type: got 3; expected the name of a model, as a string",
    ]),
    "unknown component": (('type = "mlp"', 'type = "mpl"'), [
        f"{P}:2:1: model.type: there is no model 'mpl'; {name_of('models')}; did you mean 'mlp'?",
        known("model"),
    ]),
    "a component in another case": (('"adamw"', '"AdamW"'), [
        f"{P}:17:1: optimizer.type: there is no optimizer 'AdamW'; {name_of('optimizers')}; "
        "did you mean 'adamw'?",
        known("optimizer"),
    ]),
    "unknown hook by its key": (("[hooks.ema]", "[hooks.emma]"), [
        f"{P}:26:8: hooks.emma.type: there is no hook 'emma'; {name_of('hooks')}; did you mean 'ema'?",
        known("hook"),
    ]),
    "unknown argument": (("lr = 0.01", "weight_decai = 0.01"), [
        f"{P}:18:1: optimizer.weight_decai: unknown argument; did you mean 'weight_decay'?",
    ]),
    "missing argument": (("out_features = 10\n", ""), [
        f"{P}:1:2: model.out_features: is missing; expected out_features = ... ({COUNT})",
    ]),
    "hook is no table": (("[hooks.ema]", "[hooks]\nema = true"), [
        f"{P}:27:1: hooks.ema: got true, a boolean; expected a table",
    ]),
    "metric with a slash": (("[metrics.accuracy]", "[metrics.'a/b']\ntype = 'accuracy'"), [
        f"{P}:20:10: metrics.a/b: \"a/b\" is no name for it; expected no '/' and no white space",
    ]),
    # the engine's keys in components' tables
    "weights is a number": (("out_features = 10", "out_features = 10\nweights = 4"), [
        f"{P}:6:1: model.weights: got 4; expected the path of a safetensors file",
    ]),
    "weights without path": (("out_features = 10", "out_features = 10\nweights = {includes = ['a']}"), [
        f"{P}:6:1: model.weights.path: is missing; expected the path of a safetensors file",
        f"{P}:6:12: model.weights.includes: unknown key; expected path or include; did you mean 'include'?",
    ]),
    "freeze is text": (("out_features = 10", "out_features = 10\nfreeze = 'a.*'"), [
        f'{P}:6:1: model.freeze: got "a.*"; expected an array of globs on parameter names',
    ]),
    "groups is a table": (("lr = 0.01", "groups = {lr = 1}"), [
        f"{P}:18:1: optimizer.groups: got {{lr = 1}}; expected an array of tables [[optimizer.groups]]",
    ]),
    "group without params": (("lr = 0.01", "[[optimizer.groups]]\nlr = 1"), [
        f"{P}:18:13: optimizer.groups.0.params: is missing; expected an array of globs on parameter names",
    ]),
    "unknown option in a group": (("lr = 0.01", "[[optimizer.groups]]\nparams = ['*']\nlrr = 1"), [
        f"{P}:20:1: optimizer.groups.0.lrr: unknown argument; did you mean 'lr'?",
    ]),
    "hook on no such ranks": (("[hooks.ema]", "[hooks.ema]\nranks = 'mian'"), [
        f'{P}:27:1: hooks.ema.ranks: got "mian"; '
        'expected "all", "main" or "local_main"; did you mean \'main\'?',
    ]),
    "scheduler's interval": (
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\ninterval = 'batch'\n[train]"),
        [f'{P}:24:1: scheduler.interval: got "batch"; expected "step" or "epoch"'],
    ),
    # the engine's tables
    "batch size is text": (("size = 64", "size = '64'"), [
        f'{P}:24:1: train.global_batch_size: got "64" (a string); expected an integer',
    ]),
    "batch size is a float": (("size = 64", "size = 64.0"), [
        f"{P}:24:1: train.global_batch_size: got 64.0; expected an integer",
    ]),
    "batch size is zero": (("size = 64", "size = 0"), [
        f"{P}:24:1: train.global_batch_size: got 0; expected a number of at least 1",
    ]),
    "batch size is missing": (("global_batch_size = 64\n", ""), [
        f"{P}:22:2: train.global_batch_size: is missing; expected a value; there is no default",
    ]),
    "precision": (("size = 64", "size = 64\nprecision = 'fp61'"), [
        f'{P}:25:1: train.precision: got "fp61"; expected "fp32", "bf16" or "fp16"; did you mean \'fp16\'?',
    ]),
    "period without unit": (("size = 64", "size = 64\nlog_every = 50"), [
        f'{P}:25:1: train.log_every: got 50; expected "N epochs", "N steps" or "never"',
    ]),
    "unknown signal": (("size = 64", "size = 64\nstop_signals = ['TERM', 'KILL']"), [
        f'{P}:25:25: train.stop_signals.1: got "KILL"; expected "TERM", "INT", "USR1", "USR2" or "HUP"',
    ]),
    "either of two types": (("[hooks.ema]", "[distributed]\nthreads = 'many'"), [
        f'{P}:27:1: distributed.threads: got "many"; expected an integer or "auto"',
    ]),
    "duration without unit": (("[hooks.ema]", "[distributed]\ntimeout = '10'"), [
        f'{P}:27:1: distributed.timeout: got "10" (a string); '
        'expected a duration with its unit, as "30 s", "10 min" or "1 h"',
    ]),
    "unknown setting": (("epochs = 2", "epochs = 2\nprecison = 'bf16'"), [
        f"{P}:24:1: train.precison: unknown key; did you mean 'precision'?",
    ]),
    # rules between tables
    "two lengths": (("epochs = 2", "epochs = 2\nsteps = 5"), [
        f"{P}:24:1: train.steps: epochs and steps are both set; expected {LENGTH}",
    ]),
    "no length": (("epochs = 2\n", ""), [
        f"{P}:22:2: train: does not say how long to train; expected {LENGTH}",
    ]),
    "nothing to evaluate": (
        ('[dataset.eval]\ntype = "digits"', ""),
        ("epochs = 2", "epochs = 2\nevaluate_every = '1 epoch'"),
        [
            f'{P}:23:1: train.evaluate_every: got "1 epoch", but no dataset is evaluated; '
            'expected a table [dataset.NAME] beside [dataset.train], or "never"',
        ]),
    "monitor of no metric": (("[hooks.ema]", "[hooks.checkpoint]\nmonitor = 'eval/acuracy'"), [
        f"{P}:27:1: hooks.checkpoint.monitor: \"eval/acuracy\" is not measured; "
        "did you mean 'eval/accuracy'?",
    ]),
    "monitor of the unclipped norm": (("[hooks.ema]", "[hooks.checkpoint]\nmonitor = 'grad_norm'"), [
        f'{P}:27:1: hooks.checkpoint.monitor: "grad_norm" is not measured; '
        "expected one of eval/loss, eval/accuracy, train/loss, lr",
    ]),
    "scheduler's monitor": (
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\nmonitor = 'eval/los'\n[train]"),
        [
            f'{P}:24:1: scheduler.monitor: "eval/los" is not measured at evaluation; '
            "did you mean 'eval/loss'?",
        ]),
    "scheduler's monitor of training": (
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\nmonitor = 'lr'\n[train]"),
        [
            f'{P}:24:1: scheduler.monitor: "lr" is not measured at evaluation; '
            "expected one of eval/loss, eval/accuracy",
        ]),
    "scheduler's monitor with nothing to evaluate": (
        ('[dataset.eval]\ntype = "digits"', ""),
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\nmonitor = 'train/loss'\n[train]"),
        [
            f'{P}:23:1: scheduler.monitor: "train/loss" is not measured at evaluation; '
            "expected a table [dataset.NAME] beside [dataset.train]",
        ]),
    "monitor of what is never evaluated": (
        ("epochs = 2", "epochs = 2\nevaluate_every = 'never'"),
        ("[hooks.ema]", "[hooks.early_stopping]\nmonitor = 'eval/loss'"),
        [
        f'{P}:28:1: hooks.early_stopping.monitor: "eval/loss" is never measured, as '
        "the run ends before its first evaluation; expected a shorter train.evaluate_every",
    ]),
    "monitor of what is evaluated behind the end": (
        ("epochs = 2", "epochs = 2\nevaluate_every = '3 epochs'"),
        ("[hooks.ema]", "[hooks.checkpoint]\nmonitor = 'eval/accuracy'"),
        [
        f'{P}:28:1: hooks.checkpoint.monitor: "eval/accuracy" is never measured, as '
        "the run ends before its first evaluation; expected a shorter train.evaluate_every",
    ]),
    "metric named as the loss": (("[metrics.accuracy]", "[metrics.loss]\ntype = 'accuracy'"), [
        f"{P}:20:10: metrics.loss: the name is reserved for the objective's loss; "
        "expected another name, with its type beside it",
    ]),
    "name from the environment": (("[model]", 'name = "a-${oc.env:TEST_TEXT}"\n[model]'), [
        f"{P}:1:1: name: comes from the environment, whose text is never written; the run's folder has "
        "the name; expected plain text, or --name on the command line",
    ]),
    # interpolation
    "unknown reference": (("= 10", '= "${vars.clases}"\n[vars]\nclasses = 10'), [
        f"{P}:5:1: model.out_features: ${{vars.clases}} refers to nothing; "
        "expected a key of this config; did you mean 'vars.classes'?",
    ]),
    "relative reference": (("= 10", '= "${.in_feature}"'), [
        f"{P}:5:1: model.out_features: ${{.in_feature}} refers to nothing (model.in_feature); "
        "expected a key of this config; did you mean 'model.in_features'?",
    ]),
    "circle": (("= 10", '= "${vars.a}"\n[vars]\na = "${vars.b}"\nb = "${vars.a}"'), [
        f"{P}:7:1: vars.a: the references go round in a circle: vars.a -> vars.b -> vars.a",
    ]),
    "unset variable": (("= 10", '= "${oc.env:TEST_UNSET}"'), [
        f"{P}:5:1: model.out_features: the environment variable 'TEST_UNSET' is not set; "
        "expected the variable, or a default as in ${oc.env:TEST_UNSET,default}",
    ]),
    "variable of the wrong type": (("= 10", '= "${oc.env:TEST_TEXT}"'), [
        f"{P}:5:1: model.out_features: got ${{oc.env:TEST_TEXT}}; expected an integer ({COUNT})",
    ]),
    "no such function": (("= 10", '= "${oc.coerce:os.system,1}"'), [
        f"{P}:5:1: model.out_features: there is no function 'oc.coerce' for interpolation; expected "
        "oc.env, oc.decode, oc.select, oc.create, oc.dict.keys or oc.dict.values; did you mean 'oc.decode'?",
    ]),
    "reference past the top": (("= 10", '= "${....x}"'), [
        f"{P}:5:1: model.out_features: ${{....x}} climbs past the top of the config",
    ]),
    "reference into a scalar": (("= 10", '= "${seed.x}"'), [
        f"{P}:5:1: model.out_features: ${{seed.x}} refers to nothing; expected a key "
        "of this config",
    ]),
    "reference in an array": (("hidden = [8]", 'hidden = [8, "${vars.wide}"]\n'), [
        f"{P}:4:14: model.hidden.1: ${{vars.wide}} refers to nothing; expected a key "
        "of this config",
    ]),
    "reference in an inline table": (("[hooks.ema]", '[hooks]\nema = { decay = "${vars.x}" }'), [
        f"{P}:27:9: hooks.ema.decay: ${{vars.x}} refers to nothing; expected a key of "
        "this config",
    ]),
    "reference to itself": (("= 10", '= "${model.out_features}"'), [
        f"{P}:5:1: model.out_features: the references go round in a circle: "
        "model.out_features -> model.out_features",
    ]),
    "circle of three through a table": (
        ("= 10", '= "${vars.t.x}"\n[vars]\nt = { x = "${vars.u}" }\nu = "${model.out_features}"'), [
        f"{P}:5:1: model.out_features: the references go round in a circle: "
        "model.out_features -> vars.t.x -> vars.u -> model.out_features",
    ]),
    "unfinished reference": (("= 10", '= "${vars.x"'), [
        f"{P}:5:1: model.out_features: is no interpolation that can be read: no "
        "viable alternative at input '${vars.x'; expected ${KEY} or ${FUNCTION:ARGUMENTS}, "
        "or \\${ for a plain ${",
    ]),
    "empty argument": (("= 10", '= "${oc.env:}"'), [
        f"{P}:5:1: model.out_features: oc.env takes 1 or 2 arguments, got 0",
    ]),
    "too many arguments": (("= 10", '= "${oc.env:A,1,2}"'), [
        f"{P}:5:1: model.out_features: oc.env takes 1 or 2 arguments, got 3",
    ]),
    "wrong type through a reference": (("= 10", '= "${vars.n}"\n[vars]\nn = "ten"'), [
        f'{P}:5:1: model.out_features: got "ten"; expected an integer '
        "(Annotated[int, Ge(1)])",
    ]),
    "chain too long": (
        ("= 10", '= "${vars.k0}"\n[vars]\nk65 = 1'),
        ("k65", "".join(f'k{n} = "${{vars.k{n + 1}}}"\n' for n in range(65)) + "k65"), [
        f"{P}:7:1: vars.k0: the chain of references has 65 links; expected at most "
        "64",
    ]),
    "text that doubles": (
        ("= 10", '= "${vars.k16}"\n[vars]\nk0 = "xxxxxxxxxx"\n'),
        ("[dataset.train]", f"{DOUBLED}\n[dataset.train]"), [
        f"{P}:22:1: vars.k13: the text grows past 64 KiB; expected at most 65536 "
        "characters",
    ]),
    # positions
    "dotted key": (("lr = 0.01", "[train.more]\nx.y = 1"), [
        f"{P}:18:8: train.more: unknown key; expected epochs, steps, "
        "global_batch_size, eval_batch_size, max_microbatch_size, precision, clip_grad_norm, "
        "evaluate_every, log_every, compile, deterministic, sync_batchnorm, same_rank_seeds "
        "or stop_signals",
    ]),
    "dotted key of a table": (
        (OPTIMIZER, ""), ("[model]", "optimizer.type = 'adamw'\noptimizer.lr = 'x'\n[model]"), [
        f'{P}:2:11: optimizer.lr: got "x"; expected a number (float | Tensor)',
    ]),
    "inline table": (("[hooks.ema]", "[hooks]\nema = { decay = 0.5, every = 'x' }"), [
        f'{P}:27:22: hooks.ema.every: got "x"; expected "N epochs", "N steps" or '
        '"never" (Period)',
    ]),
    "inline tables on one line": (
        ("[hooks.ema]", ""), ("[model]", "hooks = { ema = { decai = 1 }, emma = {} }\n[model]"), [
        f"{P}:1:19: hooks.ema.decai: unknown argument; did you mean 'decay'?",
        f"{P}:1:32: hooks.emma.type: there is no hook 'emma'; expected a name that "
        "an installed package offers as pipeline.hooks, or that a local file registers and "
        "the config lists, as components = [\"file.py\"]; did you mean 'ema'?",
        known("hook"),
    ]),
    "second of an array of tables": (
        ("lr = 0.01", "[[optimizer.groups]]\nparams = ['a']\n"),
        ("[metrics", "[[optimizer.groups]]\nparams = ['b']\nlr = 'x'\n[metrics"), [
        f'{P}:24:1: optimizer.groups.1.lr: got "x"; expected a number (float | '
        "Tensor)",
    ]),
    "array over lines": (("hidden = [8]", "hidden = [\n  8,  # a comment\n  0,\n]"), [
        f"{P}:6:3: model.hidden.1: got 0; expected a number of at least 1 "
        "(list[Annotated[int, Ge(1)]])",
    ]),
    "quoted key behind characters of several bytes": (
        ("[hooks.ema]", "[hooks]\n'ema' = { 'décay' = '€', every = 1 }"), [
        f"{P}:27:11: hooks.ema.décay: unknown argument; did you mean 'decay'?",
        f'{P}:27:26: hooks.ema.every: got 1; expected "N epochs", "N steps" or '
        '"never" (Period)',
    ]),
    "table whose key stands in two places": (
        ("[hooks.ema]", "[hooks.ema]\n[hooks.checkpoint]\nkeep_last = 0"), [
        f"{P}:28:1: hooks.checkpoint.keep_last: got 0; expected a number of at "
        "least 1 (Annotated[int, Ge(1)])",
    ]),
    # values
    "a boolean is no number": (("lr = 0.01", "lr = true"), [
        f"{P}:18:1: optimizer.lr: got true; expected a number (float | Tensor)",
    ]),
    "a text of digits in an array": (("hidden = [8]", "hidden = ['8', 4, 2.5]"), [
        f'{P}:4:11: model.hidden.0: got "8" (a string); expected an integer '
        "(list[Annotated[int, Ge(1)]])",
        f"{P}:4:19: model.hidden.2: got 2.5; expected an integer "
        "(list[Annotated[int, Ge(1)]])",
    ]),
    "a bound": (("[hooks.ema]", "[hooks.ema]\ndecay = 1.5"), [
        f"{P}:27:1: hooks.ema.decay: got 1.5; expected a number less than 1.0 "
        "(Annotated[float, Ge(0), Lt(1)])",
    ]),
    "a choice": (("[hooks.ema]", "[hooks.checkpoint]\nmode = 'maxx'"), [
        f'{P}:27:1: hooks.checkpoint.mode: got "maxx"; expected "min" or "max" '
        "(Literal['min', 'max']); did you mean 'max'?",
    ]),
    "a choice of the dataset": (('type = "digits"', 'type = "digits"\nsplit = "tset"'), [
        f'{P}:9:1: dataset.train.split: got "tset"; expected "train" or "test" '
        "(Literal['train', 'test']); did you mean 'test'?",
    ]),
    "a period of nothing": (("[hooks.ema]", "[hooks.checkpoint]\nevery = '0 steps'"), [
        f'{P}:27:1: hooks.checkpoint.every: got "0 steps" (a string); expected "N '
        'epochs", "N steps" or "never" (Period)',
    ]),
    "a duration of no time": (("[hooks.ema]", "[distributed]\ntimeout = '0 s'"), [
        f'{P}:27:1: distributed.timeout: got "0 s" (a string); expected a duration '
        'with its unit, as "30 s", "10 min" or "1 h"',
    ]),
    "a duration in no unit": (("[hooks.ema]", "[distributed]\ntimeout = '3 parsecs'"), [
        f'{P}:27:1: distributed.timeout: got "3 parsecs" (a string); expected a '
        'duration with its unit, as "30 s", "10 min" or "1 h"',
    ]),
    "no number": (("epochs = 2", "epochs = 2\nclip_grad_norm = nan"), [
        f"{P}:24:1: train.clip_grad_norm: got nan; expected a number greater than "
        "0.0",
    ]),
    "a negative count": (("[hooks.ema]", "[loader]\nworkers = -1\nprefetch = 0"), [
        f"{P}:27:1: loader.workers: got -1; expected a number of at least 0",
        f"{P}:28:1: loader.prefetch: got 0; expected a number of at least 1",
    ]),
    "a date": (("lr = 0.01", "lr = 2024-01-02"), [
        f"{P}:18:1: optimizer.lr: got 2024-01-02; expected a number (float | Tensor)",
    ]),
    "a pair of three": (("lr = 0.01", "betas = [0.9, 0.99, 0.999]"), [
        f"{P}:18:1: optimizer.betas: got [0.9, 0.99, 0.999]; expected at most 2 "
        "items (tuple[float | Tensor, float | Tensor])",
    ]),
    "a pair of one": (("lr = 0.01", "betas = [0.9]"), [
        f"{P}:18:1: optimizer.betas: got [0.9]; expected an item 1 (tuple[float | "
        "Tensor, float | Tensor])",
    ]),
    "what no config can hold": (("[train]", "[scheduler]\ntype = 'lambda_lr'\n[train]"), [
        f"{P}:23:1: scheduler.type: the scheduler 'lambda_lr' cannot be used from a "
        "config: it requires 'lr_lambda' (Callable[[int], float] | list[Callable[[int], "
        "float]]), and a config cannot hold that: it is a callable",
    ]),
    "what the engine passes": (("lr = 0.01", "params = [1]"), [
        f"{P}:18:1: optimizer.params: the engine passes this argument itself; "
        "expected a table without it",
    ]),
    "a name of another kind": (('type = "mlp"', 'type = "adamw"'), [
        f"{P}:2:1: model.type: there is no model 'adamw' (there is one of that name "
        "among the kinds: optimizer); expected a name that an installed package offers as "
        "pipeline.models, or that a local file registers and the config lists, as components "
        '= ["file.py"]',
        known("model"),
    ]),
    "a package that is not there": (('type = "mlp"', 'type = "acme-vision/mlp"'), [
        f"{P}:2:1: model.type: there is no model 'acme-vision/mlp' (that name is "
        'claimed by pipeline-ddp 0.1.0 (entry point "pipeline.components.models.mlp:MLP")); '
        "expected a name that an installed package offers as pipeline.models, or that a "
        'local file registers and the config lists, as components = ["file.py"]',
        known("model"),
    ]),
    "nothing like it at all": (('type = "mlp"', 'type = "zzz"'), [
        f"{P}:2:1: model.type: there is no model 'zzz'; expected a name that an "
        "installed package offers as pipeline.models, or that a local file registers and the "
        'config lists, as components = ["file.py"]',
        known("model"),
    ]),
    "name too long": (("[model]", f"name = '{'n' * 101}'\n[model]"), [
        f"{P}:1:1: name: got "
        '"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...; '
        "expected a string without '/', at most 100 characters, not beginning with '.'",
    ]),
    "name with white space around": (("[model]", "name = ' a'\n[model]"), [
        f"{P}:1:1: name: got \" a\"; expected a string without '/', at most 100 "
        "characters, not beginning with '.'",
    ]),
    "an empty key": (("lr = 0.01", "'' = 1"), [
        f"{P}:18:1: optimizer.: '' is no usable key; expected a name without a dot, "
        "as keys are written with dots",
    ]),
    "hooks are a number": (("[hooks.ema]", ""), ("[model]", "hooks = 3\n[model]"), [
        f"{P}:1:1: hooks: got 3, an integer; expected a table",
    ]),
    "dataset of text": (('[dataset.eval]\ntype = "digits"', "[dataset]\neval = 'digits'"), [
        f'{P}:11:1: dataset.eval: got "digits", a string; expected a table',
    ]),
    "metrics in an array": (("[metrics.accuracy]", "[[metrics]]\ntype = 'accuracy'"), [
        f'{P}:20:3: metrics: got [{{type = "accuracy"}}], an array; expected a table',
    ]),
    "type is empty": (('type = "mlp"', 'type = ""'), [
        f'{P}:2:1: model.type: got ""; expected the name of a model, as a string',
    ]),
    "groups of numbers": (("lr = 0.01", "groups = [1]"), [
        f"{P}:18:1: optimizer.groups: got [1]; expected an array of tables "
        "[[optimizer.groups]]",
    ]),
    "globs that are numbers": (("lr = 0.01", "[[optimizer.groups]]\nparams = [1]"), [
        f"{P}:19:1: optimizer.groups.0.params: got [1]; expected an array of globs "
        "on parameter names",
    ]),
    "no globs at all": (("lr = 0.01", "[[optimizer.groups]]\nparams = []"), [
        f"{P}:19:1: optimizer.groups.0.params: got []; expected an array of globs "
        "on parameter names",
    ]),
    "a whole table from the environment": (
        ('[objective]\ntype = "cross_entropy"', ""),
        ("[model]", 'objective = "${oc.env:TEST_TEXT}"\n[model]'), [
        f"{P}:1:1: objective: got ${{oc.env:TEST_TEXT}}, a string; expected a table",
    ]),
    # all at once, in the file's order
    "several": (("[model]", "sed = 4\n[model]"), ("0.01", "'x'"), ("size = 64", "size = 0"), [
        f"{P}:1:1: sed: unknown key; did you mean 'seed'?",
        f'{P}:19:1: optimizer.lr: got "x"; expected a number ({LR})',
        f"{P}:25:1: train.global_batch_size: got 0; expected a number of at least 1",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_edit(real_lines, monkeypatch, edits) -> None:
    monkeypatch.setenv("TEST_TEXT", "hush")
    *replacements, expected = edits
    text = CONFIG
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    assert real_lines(text) == expected


@pytest.mark.parametrize(
    ("place", "head", "table"),
    [
        (
            f"{P}:29:1",
            "",
            "[vars.ema]\ndecay = '${oc.env:TEST_TEXT}'\n[hooks]\nema = '${vars.ema}'",
        ),
        (
            f"{P}:1:1",
            "hooks = '${vars.hooks}'\n",
            "[vars.hooks.ema]\ndecay = '${oc.env:TEST_TEXT}'",
        ),
    ],
    ids=["itself", "one above it"],
)
def test_a_table_with_variables_is_not_referred_to(monkeypatch, real_lines, place, head, table) -> None:
    monkeypatch.setenv("TEST_TEXT", "hush")
    found = real_lines(head + CONFIG.replace("[hooks.ema]", table))
    what = "a whole table comes from the environment; expected variables for single values of it"
    assert found == [f"{place}: hooks.ema: {what}"]


OVERRIDES = {
    "no equals sign": (["optimizer.lr"], [], [
        '--set: "optimizer.lr" has no \'=\'; expected KEY=VALUE, as optimizer.lr=0.01',
    ]),
    "no key": (["=3"], [], ['--set: "" is no key; expected names joined by dots, as optimizer.lr']),
    "empty part": (["optimizer..lr=3"], [], [
        '--set: "optimizer..lr" is no key; expected names joined by dots, as optimizer.lr',
    ]),
    "unknown argument": (["optimizer.lrr=3"], [], [
        "--set optimizer.lrr: unknown argument; did you mean 'lr'?",
    ]),
    "unknown table": (["optimzer.lr=3"], [], ["--set optimzer: unknown key; did you mean 'optimizer'?"]),
    "wrong type": (["optimizer.lr=fast"], [], [f'--set optimizer.lr: got "fast"; expected a number ({LR})']),
    "into a scalar": (["train.epochs.x=3"], [], [
        "--set train.epochs.x: train.epochs is 2, which has no 'x' inside",
    ]),
    "past an array": (["model.hidden=[1]", "model.hidden.3=5"], [], [
        "--set model.hidden.3: model.hidden has no element '3'; expected a position below 1, or "
        "model.hidden+=VALUE to append",
    ]),
    "inside an inline table": (["hooks.ema={decai=1}"], [], [
        "--set hooks.ema.decai: unknown argument; did you mean 'decay'?",
    ]),
    "extends": (["extends=other.toml"], [], [
        "--set extends: files cannot be extended by an override",
    ]),
    "both lengths": (["train.epochs=1", "train.steps=1"], [], [
        f"--set train.steps: epochs and steps are both set; expected {LENGTH}",
    ]),
    "huge number": (["seed=" + "9" * 5000], [], [
        "--set seed: the value cannot be read: a number has too many digits",
    ]),
    "too deep": (["vars.x=" + "[" * 500], [], [
        "--set vars.x: the value cannot be read: nested too deep",
    ]),
    "not TOML": (["vars.x=[[["], [], None),
    "not Unicode": (["name=\udcff"], [], ["--set name: the text is not valid Unicode; expected UTF-8"]),
    "unset by --set": (["unset=[]"], [], [
        "--set unset: keys are taken out by --unset, or by unset = [...] in a file",
    ]),
    "append to a number": (["train.epochs+=3"], [], [
        "--set train.epochs: is 2, to which nothing can be appended; expected an array",
    ]),
    "append what does not fit": (["model.hidden+=[16, 'x']"], [], [
        f'--set model.hidden.2: got "x"; expected an integer (list[{COUNT}])',
    ]),
    "unset a position that is not there": ([], ["model.hidden.1"], [
        "--unset model.hidden.1: there is no such key to take out",
    ]),
    "unset nothing": ([], ["hooks.emma"], [
        "--unset hooks.emma: there is no such key to take out; did you mean 'hooks.ema'?",
    ]),
    "unset in a scalar": ([], ["train.epochs.x"], [
        "--unset train.epochs.x: there is no such key to take out",
    ]),
    "unset what is needed": ([], ["model"], [
        f'{P}:1:1: model: is missing; expected [model] with type = "..."',
    ]),
    "files first, overrides last": (["sed=3", "optimizer.lr=x"], ["train.epochs"], [
        f"{P}:22:2: train: does not say how long to train; expected {LENGTH}",
        "--set sed: unknown key; did you mean 'seed'?",
        f'--set optimizer.lr: got "x"; expected a number ({LR})',
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("sets", "unsets", "expected"), OVERRIDES.values(), ids=OVERRIDES)
def test_override(real_lines, load_real, sets, unsets, expected) -> None:
    if expected is None:  # not TOML, and so a plain text
        load_real(CONFIG, *sets, unsets=unsets)
    else:
        assert real_lines(CONFIG, *sets, unsets=unsets) == expected


EMPTY = f"{P}: the file is empty; expected a config with at least model, dataset.train, train"
FILES = {
    "empty": (b"", EMPTY),
    "white space": (b" \n\n", EMPTY),
    "too large": (
        b"#" * (1 << 20) + b"\n",
        f"{P}: is larger than 1 MiB; expected a config; data belongs into files of its own",
    ),
    "not UTF-8": (b"a = 1\nb = '\xc3\xa9\xff'", f"{P}:2:7: byte 0xff is not UTF-8; expected UTF-8"),
    "byte-order mark": (
        b"\xef\xbb\xbfa = 1",
        f"{P}:1:1: begins with a byte-order mark; expected UTF-8 without one",
    ),
    "NUL": (b"a = 1\nb = \0", f"{P}:2:5: holds a NUL byte; expected text"),
    "syntax": (b"a = 1\nb = = 2", f"{P}:2:5: invalid TOML: invalid value"),
    "unfinished": (b"a = [1,\n", f"{P}:1:8: invalid TOML: invalid value at the end of the file"),
    "twice": (b"[a]\nb = 1\nb = 2\n", f"{P}:3:6: invalid TOML: cannot overwrite a value"),
    "deep": (b"a = " + b"[" * 5000 + b"]" * 5000, f"{P}: is nested deeper than 64 levels"),
    "form feed": (b"a = 1\n\x0cb = 2", f"{P}:2:1: invalid TOML: invalid statement"),
    "half a character": (
        b'a = "\\ud800"', f"{P}:1:12: invalid TOML: escaped character is not a Unicode scalar value"
    ),
    "line separator": ("a = 'x\u2028y'\nb = = 3".encode(), f"{P}:2:5: invalid TOML: invalid value"),
    "key twice by dots": (b"a.b = 1\na = {}\nx = 1", f"{P}:2:7: invalid TOML: cannot overwrite a value"),
    "table twice": (b"[a]\n[a]\n", f"{P}:2:3: invalid TOML: cannot declare a twice"),
    "array against a table": (b"[a]\n[[a]]\n", f"{P}:2:4: invalid TOML: cannot overwrite a value"),
    "windows line ends": (b"a = 1\r\nb = = 2\r\n", f"{P}:2:5: invalid TOML: invalid value"),
    "rather deep": (b"a = " + b"[" * 70 + b"]" * 70, f"{P}: is nested deeper than 64 levels"),
    "long number": (b"a = " + b"9" * 5000, f"{P}: cannot be read: a number has too many digits"),
    "lone carriage return": (
        b"a = 1\rb = 2",
        f"{P}:1:6: invalid TOML: expected newline or end of document after a statement",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), FILES.values(), ids=FILES)
def test_file_that_is_no_config(tmp_path, monkeypatch, data, expected) -> None:
    monkeypatch.chdir(tmp_path)
    Path(P).write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read(P)
    assert str(caught.value) == expected


def test_no_such_file_and_a_folder(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: there is no such file"):
        read(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"is a folder; expected a TOML file"):
        read(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read("a\0b")


def test_a_pipe_is_not_waited_for(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match="cannot be read: it is a pipe or a device; save"):
        read(tmp_path / "pipe.toml")


EXTENDS = {
    "missing base": ('extends = "none.toml"\n', {}, [
        f"{P}:1:1: extends: none.toml: there is no such file; expected the path of a TOML file",
    ]),
    "second of a list": ('extends = [\n  "a.toml",\n  "none.toml"]\n', {"a.toml": "x = 1"}, [
        f"{P}:3:3: extends: none.toml: there is no such file; expected the path of a TOML file",
    ]),
    "itself": (f'extends = "{P}"\n', {}, [
        f'{P}:1:1: extends: "{P}" extends itself: {P} -> {P}',
    ]),
    "in a circle": ('extends = "a.toml"\n', {"a.toml": f'extends = "{P}"\n'}, [
        f'a.toml:1:1: extends: "{P}" extends itself: {P} -> a.toml -> {P}',
    ]),
    "a number": ("extends = 3\n", {}, [f"{P}:1:1: extends: got 3; expected a file name or a list of them"]),
    "syntax in the base": ('extends = "a.toml"\n', {"a.toml": "x = "}, [
        "a.toml:1:4: invalid TOML: invalid value at the end of the file",
    ]),
    "two broken bases": ('extends = ["a.toml", "b.toml"]\n', {"a.toml": "x = ]", "b.toml": "[y"}, [
        "a.toml:1:5: invalid TOML: invalid value",
        "b.toml:1:3: invalid TOML: expected ']' at the end of a table declaration at the end of the file",
    ]),
    "base first": ('extends = "a.toml"\nsed = 1\n', {"a.toml": "zeed = 1\n"}, [
        "a.toml:1:1: zeed: unknown key; did you mean 'seed'?",
        "a.toml is extended by pipeline.toml:1:1",
        f"{P}:2:1: sed: unknown key; did you mean 'seed'?",
    ]),
    "three deep": (
        'extends = "a.toml"\n',
        {"a.toml": 'extends = "sub/b.toml"\n', "sub/b.toml": "\n  sed = 1\n"}, [
        "sub/b.toml:2:3: sed: unknown key; did you mean 'seed'?",
        "sub/b.toml is extended by a.toml:1:1, that by pipeline.toml:1:1",
    ]),
    "type of the base, argument of the child": (
        'extends = "a.toml"\n', {"a.toml": "[scheduler]\ntype = 'warmup_cosine'\nwarmup_stps = 3"}, [
        "a.toml:3:1: scheduler.warmup_stps: unknown argument; did you mean 'warmup_steps'?",
        "a.toml is extended by pipeline.toml:1:1",
    ]),
    "a value of the base through a reference of the child": (
        'extends = "a.toml"\nvars.x = "text"\n',
        {"a.toml": "[scheduler]\ntype='constant'\nwarmup_steps = '${vars.x}'"}, [
        'a.toml:3:1: scheduler.warmup_steps: got "text"; expected an integer (Annotated[int, '
        "Ge(0)])",
        "a.toml is extended by pipeline.toml:1:1",
    ]),
    "takes out what is not there": (
        'extends = "a.toml"\nunset = [\n  "scheduler", "hooks.emma"]\n',
        {"a.toml": "[hooks.ema]\n[scheduler]\n"}, [
        f"{P}:3:16: hooks.emma: there is no such key to take out; did you mean 'hooks.ema'?",
    ]),
    "takes out no keys": ('unset = "scheduler"\n', {}, [
        f'{P}:1:1: unset: got "scheduler"; expected a list of keys, as ["hooks.progress"]',
    ]),
    "edits what is not there": (
        'extends = "a.toml"\nset = [\n'
        '  "optimizer.groups.0.lr=1", "optimizer.groups.1.lr=1", "hooks.ema.deca=1"]\n',
        {"a.toml": "[[optimizer.groups]]\nparams=['*']\n[hooks.ema]\n"}, [
        f"{P}:3:30: optimizer.groups.1.lr: optimizer.groups has no element '1'; expected a position below 1, "
        "or optimizer.groups+=VALUE to append",
        f"{P}:3:57: hooks.ema.deca: unknown argument; did you mean 'decay'?",
    ]),
    "edits what no edit can": (
        'set = ["lr", "extends=x", "train.epochs+=1", "seed=true"]\n', {}, [
        f"""{P}:1:8: "lr" has no '='; expected KEY=VALUE, as optimizer.lr=0.01""",
        f"{P}:1:14: extends: files cannot be extended by an override",
        f"{P}:1:27: train.epochs: is 2, to which nothing can be appended; expected an array",
        f"{P}:1:46: seed: got true, a boolean; expected an integer in 0..2**63-1",
    ]),
    "edits in no list": ('set = "train.epochs=1"\n', {}, [
        f'{P}:1:1: set: got "train.epochs=1"; expected a list of overrides, as ["hooks.ema.decay=0.9"]',
    ]),
    "a folder": ('extends = "."\n', {}, [
        f"{P}:1:1: extends: .: is a folder; expected a TOML file",
    ]),
    "component file": ('components = ["none.py"]\n', {}, [
        f'{P}:1:15: components: "none.py" cannot be read: No such file or directory; '
        "expected a Python file, relative to this config; --set 'components=[\"FILE\"]' names one that was "
        "moved",
    ]),
    "component file with a long path": (f'components = ["{"folder/" * 20}none.py"]\n', {}, [
        f'{P}:1:15: components: "{"folder/" * 20}none.py" cannot be read: No such file or directory; '
        "expected a Python file, relative to this config; --set 'components=[\"FILE\"]' names one that was "
        "moved",
    ]),
    "component file is a device": ('components = ["/dev/zero"]\n', {}, [
        f'{P}:1:15: components: "/dev/zero" cannot be read: it is a pipe or a device; save what it gives as '
        "a file; expected a Python file, relative to this config; --set 'components=[\"FILE\"]' names one "
        "that was moved",
    ]),
    "components are no list": ('components = "a.py"\n', {}, [
        f'{P}:1:1: components: got "a.py"; expected a list of Python files',
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("head", "files", "expected"), EXTENDS.values(), ids=EXTENDS)
def test_extends_and_components(real_lines, head, files, expected) -> None:
    assert real_lines(head + CONFIG, files=files) == expected


# found by ``check``, which builds the model without its memory and looks at the data

CHECKED = {
    "warm-up longer than the run": (
        ["scheduler={type='warmup_cosine', warmup_steps=500}"], [
        "--set scheduler.warmup_steps: scheduler 'warmup_cosine' cannot be built: ValueError: warmup_steps = "
        "500 is longer than the run of 46 steps; shorten the warm-up or train longer",
    ]),
    "group of no parameter": (["optimizer.groups=[{params=['heads.*'], lr=1}]"], [
        "--set optimizer.groups: optimizer 'adamw' cannot be built: 'heads.*' matches no name; the names are "
        "layers.0.weight, layers.0.bias, layers.2.weight, layers.2.bias",
    ]),
    "nothing to freeze": (["model.freeze=['heads.*']"], [
        "--set model.freeze: model 'mlp' cannot be built: 'heads.*' matches no name; the names are "
        "layers.0.weight, layers.0.bias, layers.2.weight, layers.2.bias",
    ]),
    "batch larger than the data": (["loader.drop_last=true", "train.global_batch_size=5000"], [
        "--set train.global_batch_size: sampler 'shuffle' cannot be built: an epoch of 1437 samples has no "
        "batch of train.global_batch_size = 5000; choose a smaller batch, or loader.drop_last = false",
    ]),
    "scheduler that is driven by no metric": (
        ["scheduler={type='constant', monitor='eval/loss'}"], [
        "--set scheduler.monitor: scheduler 'constant' cannot be built: scheduler 'constant' (scheduler, "
        "--set) is not driven by a metric; remove scheduler.monitor",
    ]),
    "batch that leaves ranks without samples": (["train.global_batch_size=2"], [
        "warning: train.global_batch_size = 2: of 4 ranks, 2 get no sample of any batch",
        "warning: train.eval_batch_size = 2: of 4 ranks, 2 get no sample of any batch",
    ]),
    "evaluation behind the end": (["train.evaluate_every='3 epochs'"], [
        "warning: train.evaluate_every: the run ends before 3 epochs are over, so nothing is evaluated",
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("sets", "expected"), CHECKED.values(), ids=CHECKED)
def test_what_check_finds(tmp_path, sets, expected) -> None:
    (tmp_path / P).write_text(CONFIG)
    options = [word for override in sets for word in ("--set", override)]
    result = CliRunner().invoke(main, ["check", str(tmp_path / P), "--world-size", "4", *options])
    assert result.exit_code == (0 if expected[0].startswith("warning") else 2)
    assert result.stderr.splitlines() == expected
