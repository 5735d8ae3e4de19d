"""The DDP runtime: assembles bound components into a training loop that keeps the seven promises."""
