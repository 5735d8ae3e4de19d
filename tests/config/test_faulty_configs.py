"""What is wrong with a config, and the lines that say so: a specification by examples.

Each example is a change of this config, as text after text to replace, and the lines it gives.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.layers import read
from pipeline.errors import ConfigError

CONFIG = """\
[model]
type = "mlp"
out_features = 10

[dataset.train]
type = "digits"

[dataset.eval]
type = "digits"

[objective]
type = "cross_entropy"

[optimizer]
type = "adamw"
lr = 0.01

[metrics.accuracy]

[train]
epochs = 2
global_batch_size = 64

[hooks.ema]
"""

P = "pipeline.toml"
TOP_LEVEL = (
    "name, seed, extends, components, vars, model, dataset, objective, optimizer, scheduler, "
    "sampler, metrics, train, loader, distributed or hooks"
)
NAME = "a string without '/', at most 100 characters, not beginning with '.'"
LENGTH = "exactly one of train.epochs and train.steps"

EDITS = {
    # the top level
    "unknown table": (("[train]", "[trian]"), [
        f"{P}:1:1: train: is missing; expected [train] with global_batch_size and {LENGTH}",
        f"{P}:20:2: trian: unknown key; did you mean 'train'?",
    ]),
    "nothing like it": (("[model]", "zebra = 1\n[model]"), [
        f"{P}:1:1: zebra: unknown key; expected {TOP_LEVEL}",
    ]),
    "misplaced at the top": (("[model]", "lr = 1\n[model]"), [
        f"{P}:1:1: lr: unknown key, which belongs under [optimizer]",
    ]),
    "misplaced in train": (("epochs = 2", "epochs = 2\nworkers = 2"), [
        f"{P}:22:1: train.workers: unknown key, which belongs under [loader]",
    ]),
    "misplaced in a component": (("lr = 0.01", "lr = 0.01\nprecision = 'bf16'"), [
        f"{P}:17:1: optimizer.precision: unknown key, which belongs under [train]",
    ]),
    "seed in train": (("epochs = 2", "epochs = 2\nseed = 2"), [
        f"{P}:22:1: train.seed: unknown key, which belongs to the top level",
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
        f"{P}:16:1: optimizer.weight.decay: 'weight.decay' is no usable key; "
        "expected a name without a dot, as keys are written with dots",
    ]),
    # components
    "model is text": (('[model]\ntype = "mlp"\nout_features = 10', 'model = "mlp"'), [
        f'{P}:1:1: model: got "mlp", a string; expected a table',
    ]),
    "no model": (('[model]\ntype = "mlp"\nout_features = 10', ""), [
        f'{P}:1:1: model: is missing; expected [model] with type = "..."',
    ]),
    "no training data": (("[dataset.train]", "[dataset.test]"), [
        f'{P}:5:2: dataset.train: is missing; expected [dataset.train] with type = "..."',
    ]),
    "no type": (('type = "mlp"\n', ""), [
        f"{P}:1:2: model.type: is missing; expected the name of a model",
    ]),
    "type is a number": (('type = "mlp"', "type = 3"), [
        f"{P}:2:1: model.type: got 3; expected the name of a model, as a string",
    ]),
    "unknown component": (('type = "mlp"', 'type = "mpl"'), [
        f"{P}:2:1: model.type: there is no model 'mpl'; did you mean 'mlp'?",
    ]),
    "unknown hook by its key": (("[hooks.ema]", "[hooks.emma]"), [
        f"{P}:24:8: hooks.emma.type: there is no hook 'emma'; did you mean 'ema'?",
    ]),
    "unknown argument": (("lr = 0.01", "weight_decai = 0.01"), [
        f"{P}:16:1: optimizer.weight_decai: unknown key; did you mean 'weight_decay'?",
    ]),
    "missing argument": (("out_features = 10\n", ""), [
        f"{P}:1:2: model.out_features: is missing; expected a value",
    ]),
    "hook is no table": (("[hooks.ema]", "[hooks]\nema = true"), [
        f"{P}:25:1: hooks.ema: got true, a boolean; expected a table",
    ]),
    "metric with a slash": (("[metrics.accuracy]", "[metrics.'a/b']\ntype = 'accuracy'"), [
        f"{P}:18:10: metrics.a/b: \"a/b\" is no name for it; expected no '/' and no white space",
    ]),
    # the engine's keys in components' tables
    "weights is a number": (("out_features = 10", "out_features = 10\nweights = 4"), [
        f"{P}:4:1: model.weights: got 4; expected the path of a safetensors file",
    ]),
    "weights without path": (("out_features = 10", "out_features = 10\nweights = {includes = ['a']}"), [
        f"{P}:4:1: model.weights.path: is missing; expected the path of a safetensors file",
        f"{P}:4:12: model.weights.includes: unknown key; expected path or include; did you mean 'include'?",
    ]),
    "freeze is text": (("out_features = 10", "out_features = 10\nfreeze = 'a.*'"), [
        f'{P}:4:1: model.freeze: got "a.*"; expected an array of globs on parameter names',
    ]),
    "groups is a table": (("lr = 0.01", "groups = {lr = 1}"), [
        f"{P}:16:1: optimizer.groups: got {{lr = 1}}; expected an array of tables [[optimizer.groups]]",
    ]),
    "group without params": (("lr = 0.01", "[[optimizer.groups]]\nlr = 1"), [
        f"{P}:16:13: optimizer.groups.0.params: is missing; expected an array of globs on parameter names",
    ]),
    "unknown option in a group": (("lr = 0.01", "[[optimizer.groups]]\nparams = ['*']\nlrr = 1"), [
        f"{P}:18:1: optimizer.groups.0.lrr: unknown key; did you mean 'lr'?",
    ]),
    "hook on no such ranks": (("[hooks.ema]", "[hooks.ema]\nranks = 'mian'"), [
        f'{P}:25:1: hooks.ema.ranks: got "mian"; '
        'expected "all", "main" or "local_main"; did you mean \'main\'?',
    ]),
    "scheduler's interval": (
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\ninterval = 'batch'\n[train]"),
        [f'{P}:22:1: scheduler.interval: got "batch"; expected "step" or "epoch"'],
    ),
    # the engine's tables
    "batch size is text": (("= 64", "= '64'"), [
        f'{P}:22:1: train.global_batch_size: got "64" (a string); expected an integer',
    ]),
    "batch size is a float": (("= 64", "= 64.0"), [
        f"{P}:22:1: train.global_batch_size: got 64.0; expected an integer",
    ]),
    "batch size is zero": (("= 64", "= 0"), [
        f"{P}:22:1: train.global_batch_size: got 0; expected a number of at least 1",
    ]),
    "batch size is missing": (("global_batch_size = 64\n", ""), [
        f"{P}:20:2: train.global_batch_size: is missing; expected a value; there is no default",
    ]),
    "precision": (("= 64", "= 64\nprecision = 'fp61'"), [
        f'{P}:23:1: train.precision: got "fp61"; expected "fp32", "bf16" or "fp16"; did you mean \'fp16\'?',
    ]),
    "period without unit": (("= 64", "= 64\nlog_every = 50"), [
        f'{P}:23:1: train.log_every: got 50; expected "N epochs", "N steps" or "never"',
    ]),
    "unknown signal": (("= 64", "= 64\nstop_signals = ['TERM', 'KILL']"), [
        f'{P}:23:25: train.stop_signals.1: got "KILL"; expected "TERM", "INT", "USR1", "USR2" or "HUP"',
    ]),
    "either of two types": (("[hooks.ema]", "[distributed]\nthreads = 'many'"), [
        f'{P}:25:1: distributed.threads: got "many"; expected an integer or "auto"',
    ]),
    "duration without unit": (("[hooks.ema]", "[distributed]\ntimeout = '10'"), [
        f'{P}:25:1: distributed.timeout: got "10" (a string); '
        'expected a duration with its unit, as "30 s", "10 min" or "1 h"',
    ]),
    "unknown setting": (("epochs = 2", "epochs = 2\nprecison = 'bf16'"), [
        f"{P}:22:1: train.precison: unknown key; did you mean 'precision'?",
    ]),
    # rules between tables
    "two lengths": (("epochs = 2", "epochs = 2\nsteps = 5"), [
        f"{P}:22:1: train.steps: epochs and steps are both set; expected {LENGTH}",
    ]),
    "no length": (("epochs = 2\n", ""), [
        f"{P}:20:2: train: does not say how long to train; expected {LENGTH}",
    ]),
    "nothing to evaluate": (
        ('[dataset.eval]\ntype = "digits"', ""),
        ("epochs = 2", "epochs = 2\nevaluate_every = '1 epoch'"),
        [
            f'{P}:21:1: train.evaluate_every: got "1 epoch", but no dataset is evaluated; '
            'expected a table [dataset.NAME] beside [dataset.train], or "never"',
        ],
    ),
    "monitor of no metric": (("[hooks.ema]", "[hooks.checkpoint]\nmonitor = 'eval/acuracy'"), [
        f"{P}:25:1: hooks.checkpoint.monitor: \"eval/acuracy\" is not measured; "
        "did you mean 'eval/accuracy'?",
    ]),
    "monitor of the unclipped norm": (("[hooks.ema]", "[hooks.checkpoint]\nmonitor = 'grad_norm'"), [
        f'{P}:25:1: hooks.checkpoint.monitor: "grad_norm" is not measured; '
        "expected one of eval/loss, eval/accuracy, train/loss, lr",
    ]),
    "scheduler's monitor": (
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\nmonitor = 'eval/los'\n[train]"),
        [
            f'{P}:22:1: scheduler.monitor: "eval/los" is not measured at evaluation; '
            "did you mean 'eval/loss'?",
        ],
    ),
    "scheduler's monitor of training": (
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\nmonitor = 'lr'\n[train]"),
        [
            f'{P}:22:1: scheduler.monitor: "lr" is not measured at evaluation; '
            "expected one of eval/loss, eval/accuracy",
        ],
    ),
    "scheduler's monitor with nothing to evaluate": (
        ('[dataset.eval]\ntype = "digits"', ""),
        ("[train]", "[scheduler]\ntype = 'warmup_cosine'\nmonitor = 'train/loss'\n[train]"),
        [
            f'{P}:21:1: scheduler.monitor: "train/loss" is not measured at evaluation; '
            "expected a table [dataset.NAME] beside [dataset.train]",
        ],
    ),
    "metric named as the loss": (("[metrics.accuracy]", "[metrics.loss]\ntype = 'accuracy'"), [
        f"{P}:18:10: metrics.loss: the name is reserved for the objective's loss; "
        "expected another name, with its type beside it",
    ]),
    "name from the environment": (("[model]", 'name = "a-${oc.env:TEST_TEXT}"\n[model]'), [
        f"{P}:1:1: name: comes from the environment, whose text is never written; the run's folder has "
        "the name; expected plain text, or --name on the command line",
    ]),
    # interpolation
    "unknown reference": (("= 10", '= "${vars.clases}"\n[vars]\nclasses = 10'), [
        f"{P}:3:1: model.out_features: ${{vars.clases}} refers to nothing; "
        "expected a key of this config; did you mean 'vars.classes'?",
    ]),
    "relative reference": (("= 10", '= "${.in_feature}"\nin_features = 10'), [
        f"{P}:3:1: model.out_features: ${{.in_feature}} refers to nothing (model.in_feature); "
        "expected a key of this config; did you mean 'model.in_features'?",
    ]),
    "circle": (("= 10", '= "${vars.a}"\n[vars]\na = "${vars.b}"\nb = "${vars.a}"'), [
        f"{P}:5:1: vars.a: the references go round in a circle: vars.a -> vars.b -> vars.a",
    ]),
    "unset variable": (("= 10", '= "${oc.env:TEST_UNSET}"'), [
        f"{P}:3:1: model.out_features: the environment variable 'TEST_UNSET' is not set; "
        "expected the variable, or a default as in ${oc.env:TEST_UNSET,default}",
    ]),
    "variable of the wrong type": (("= 10", '= "${oc.env:TEST_TEXT}"'), [
        f"{P}:3:1: model.out_features: got ${{oc.env:TEST_TEXT}}; expected int",
    ]),
    "no such function": (("= 10", '= "${oc.coerce:os.system,1}"'), [
        f"{P}:3:1: model.out_features: there is no function 'oc.coerce' for interpolation; expected "
        "oc.env, oc.decode, oc.select, oc.create, oc.dict.keys or oc.dict.values; did you mean 'oc.decode'?",
    ]),
    # all at once, in the file's order
    "several": (("[model]", "sed = 4\n[model]"), ("0.01", "'x'"), ("= 64", "= 0"), [
        f"{P}:1:1: sed: unknown key; did you mean 'seed'?",
        f"{P}:17:1: optimizer.lr: got 'x'; expected float",
        f"{P}:23:1: train.global_batch_size: got 0; expected a number of at least 1",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_edit(problem_lines, monkeypatch, edits) -> None:
    monkeypatch.setenv("TEST_TEXT", "hush")
    *replacements, expected = edits
    text = CONFIG
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    assert problem_lines(text) == expected


OVERRIDES = {
    "no equals sign": (["optimizer.lr"], [], [
        '--set: "optimizer.lr" has no \'=\'; expected KEY=VALUE, as optimizer.lr=0.01',
    ]),
    "no key": (["=3"], [], ['--set: "" is no key; expected names joined by dots, as optimizer.lr']),
    "empty part": (["optimizer..lr=3"], [], [
        '--set: "optimizer..lr" is no key; expected names joined by dots, as optimizer.lr',
    ]),
    "unknown argument": (["optimizer.lrr=3"], [], [
        "--set optimizer.lrr: unknown key; did you mean 'lr'?",
    ]),
    "unknown table": (["optimzer.lr=3"], [], ["--set optimzer: unknown key; did you mean 'optimizer'?"]),
    "wrong type": (["optimizer.lr=fast"], [], ["--set optimizer.lr: got 'fast'; expected float"]),
    "into a scalar": (["train.epochs.x=3"], [], [
        "--set train.epochs.x: train.epochs is 2, which has no 'x' inside",
    ]),
    "past an array": (["model.hidden=[1]", "model.hidden.3=5"], [], [
        "--set model.hidden.3: model.hidden has no element '3'; expected a position below 1",
    ]),
    "inside an inline table": (["hooks.ema={decai=1}"], [], [
        "--set hooks.ema.decai: unknown key; did you mean 'decay'?",
    ]),
    "extends": (["extends=other.toml"], [], [
        "--set extends: files cannot be extended from the command line",
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
        f"{P}:20:2: train: does not say how long to train; expected {LENGTH}",
        "--set sed: unknown key; did you mean 'seed'?",
        "--set optimizer.lr: got 'x'; expected float",
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("sets", "unsets", "expected"), OVERRIDES.values(), ids=OVERRIDES)
def test_override(problem_lines, load_config, sets, unsets, expected) -> None:
    if expected is None:  # not TOML, and so a plain text
        load_config(CONFIG, *sets, unsets=unsets)
    else:
        assert problem_lines(CONFIG, *sets, unsets=unsets) == expected


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
        f"{P}:2:1: sed: unknown key; did you mean 'seed'?",
    ]),
    "component file": ('components = ["none.py"]\n', {}, [
        f'{P}:1:15: components: "none.py" cannot be read: No such file or directory; '
        "expected a Python file, relative to this config",
    ]),
    "components are no list": ('components = "a.py"\n', {}, [
        f'{P}:1:1: components: got "a.py"; expected a list of Python files',
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("head", "files", "expected"), EXTENDS.values(), ids=EXTENDS)
def test_extends_and_components(problem_lines, head, files, expected) -> None:
    assert problem_lines(head + CONFIG, files=files) == expected
