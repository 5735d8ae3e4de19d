"""Seeds of random streams, derived by hashing.

Adding ("seed + epoch") makes run 42's second epoch run 43's first; a hash of
(seed, purpose, ...) keeps every stream apart from every other.
"""

from __future__ import annotations

from hashlib import blake2b


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one stream: the same for the same arguments, unrelated for any others."""
    text = "\x1f".join([str(seed), *(f"{type(part).__name__}:{part}" for part in purpose)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
