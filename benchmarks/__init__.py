"""The engine against hand-written loops, in one interleaved run on the same machine."""
