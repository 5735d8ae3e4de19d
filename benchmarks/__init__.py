"""The engine beside hand-written loops and other frameworks, in one interleaved run on the same machine."""
