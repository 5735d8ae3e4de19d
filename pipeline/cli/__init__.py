"""The commands, one file each: they wire the other parts and import a part only when they need it."""
