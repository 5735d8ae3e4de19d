"""A random permutation that is computed, not stored.

Any position of a shuffle of ``length`` items is found in O(1) memory and without a start-up cost,
so an epoch over 1e12 samples begins as fast as one over 1e3. The method is a Feistel network over
the smallest power of two that holds the range, with cycle walking for the rest: Black and Rogaway,
"Ciphers with Arbitrary Finite Domains", CT-RSA 2002.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.api.seeds import derive_seed

_ROUNDS = 8
_SORTED_BELOW = 1 << 14  # small ranges are sorted by random keys: a true shuffle, and a few hundred KB
_MAX_LENGTH = 1 << 62


class KeyedPermutation:
    """The permutation of ``range(length)`` that belongs to ``key``.

    Args:
        length: how many items, up to 2**62.
        key: any integer; keys should come from ``derive_seed``.

    Raises:
        ValueError: if the length is negative or over 2**62.
    """

    def __init__(self, length: int, key: int) -> None:
        if not 0 <= length <= _MAX_LENGTH:
            raise ValueError(f"a permutation's length must be in 0..2**62, got {length}")
        self.length = length
        self._table: NDArray[np.int64] | None = None
        if length <= _SORTED_BELOW:
            # Only the raw output of a bit generator is promised to stay the same across numpy versions.
            keys = np.random.Philox(key=derive_seed(key, "permutation")).random_raw(length)
            self._table = np.argsort(keys, kind="stable").astype(np.int64)
            return
        bits = (length - 1).bit_length()
        self._low_bits = np.uint64(bits // 2)
        self._high_bits = np.uint64(bits - bits // 2)
        self._round_keys = [np.uint64(derive_seed(key, "round", i)) for i in range(_ROUNDS)]

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map positions (n,) in ``range(length)`` to items (n,), both int64."""
        if self._table is not None:
            return self._table[positions]
        items = self._encrypt(positions.astype(np.uint64))
        outside = np.flatnonzero(items >= self.length)
        while outside.size:  # cycle walking: under half of the domain lies outside, so this ends fast
            items[outside] = self._encrypt(items[outside])
            outside = outside[items[outside] >= self.length]
        return items.astype(np.int64)

    def _encrypt(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """One pass of the network, a bijection of the power of two; its halves swap every round.

        In place, like ``_mix``: a new array for each operation takes longer than the operation.
        """
        low, mixed, spare = (np.empty_like(values) for _ in range(3))
        low_bits, high_bits = self._low_bits, self._high_bits
        for round_key in self._round_keys:
            low_mask = (np.uint64(1) << low_bits) - np.uint64(1)
            high_mask = (np.uint64(1) << high_bits) - np.uint64(1)
            np.bitwise_and(values, low_mask, out=low)
            np.bitwise_xor(low, round_key, out=mixed)
            _mix(mixed, spare)
            mixed &= high_mask
            values >>= low_bits
            values ^= mixed
            low <<= high_bits
            values |= low
            low_bits, high_bits = high_bits, low_bits
        return values


def _mix(values: NDArray[np.uint64], spare: NDArray[np.uint64]) -> None:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every bit."""
    np.right_shift(values, np.uint64(30), out=spare)
    values ^= spare
    values *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(values, np.uint64(27), out=spare)
    values ^= spare
    values *= np.uint64(0x94D049BB133111EB)
    np.right_shift(values, np.uint64(31), out=spare)
    values ^= spare
