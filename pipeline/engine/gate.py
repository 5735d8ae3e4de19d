"""No collective in code that runs on some ranks only: the others would wait for it, or take it for theirs.

Whoever starts a collective, a function of torch.distributed, a functional one or DDP's own C++, torch's
dispatcher carries it out as an operator. While the gate is shut a dispatch key that nothing else uses is
set for this thread, and leads these operators to an error. All others do not have it and are as fast as
ever, and while the gate is open nothing has it: a step pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.library import Library, fallthrough_kernel

from pipeline.errors import ComponentError

_KEY = "TESTING_ONLY_GenericMode"  # torch's one key for a mode of somebody else's
_NAMESPACE = "c10d"  # functional collectives lead to its operators too
_LOCAL = "check_for_nan"  # talks to nobody
_NEW_GROUP = "_new_process_group_helper"  # which every way to make a group leads to


class Gate:
    """Lets collectives pass, except while it is shut, and in the thread that has shut it."""

    def __init__(self) -> None:
        self._shut_for = ""
        self._key = torch._C._dispatch_key_parse(_KEY)
        everything_else = _library("_")
        everything_else.fallback(fallthrough_kernel, _KEY)
        collectives = _library(_NAMESPACE)
        for name in torch._C._dispatch_get_all_op_names():
            namespace, _, operator = name.partition("::")
            if namespace == _NAMESPACE and operator != _LOCAL:
                collectives.impl(operator, self._refusal(operator), _KEY)
        self._libraries = (everything_else, collectives)
        self._make_group = getattr(distributed_c10d, _NEW_GROUP)
        setattr(distributed_c10d, _NEW_GROUP, self._guarded_make_group)

    @contextmanager
    def shut(self, who: str) -> Iterator[None]:
        """Inside, every collective and every new group raises ComponentError, naming ``who`` did it."""
        self._shut_for = who
        torch._C._dispatch_tls_set_dispatch_key_included(self._key, True)
        try:
            yield
        finally:
            torch._C._dispatch_tls_set_dispatch_key_included(self._key, False)
            self._shut_for = ""

    def remove(self) -> None:
        """Leave torch as it was."""
        setattr(distributed_c10d, _NEW_GROUP, self._make_group)
        for library in self._libraries:
            library._destroy()

    def _refusal(self, name: str) -> Callable[..., Any]:
        def collective(*arguments: Any, **options: Any) -> Any:
            raise self._error(name)

        return collective

    def _guarded_make_group(self, *arguments: Any, **options: Any) -> Any:
        if self._shut_for:  # it has no operator: it waits for all ranks in the store
            raise self._error("new_group")
        return self._make_group(*arguments, **options)

    def _error(self, name: str) -> ComponentError:
        return ComponentError(
            f"{self._shut_for} has called a collective ({name.strip('_')}), but does not run on all ranks, "
            "so the others would wait for each other for ever; let it run everywhere "
            '(ranks = "all"), or do without'
        )


def _library(namespace: str) -> Any:
    return Library(namespace, "IMPL", _KEY)  # type: ignore[no-untyped-call]
