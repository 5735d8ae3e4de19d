"""A config of built-ins that is right, for tests to change."""

CONFIG = """\
[model]
type = "mlp"
in_features = 64
hidden = [8]
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
