"""Which objects a pickle would import: read from its opcodes, so that nothing of it runs."""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator

_HARMLESS = ("torch.", "torch ", "collections.OrderedDict", "collections.defaultdict")


def foreign_objects(data: bytes) -> list[str]:
    """The objects besides torch's own that loading a pickle, or a file of torch.save, would import.

    Returns:
        Their names, as ``posix.system``, each once; none where ``data`` is no pickle.
    """
    named = dict.fromkeys(_imports(_pickle_in(data)))
    return [name for name in named if not name.startswith(_HARMLESS)]


def _pickle_in(data: bytes) -> bytes:
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.rpartition("/")[2] == "data.pkl":
                return archive.read(name)
    return b""


def _imports(data: bytes) -> Iterator[str]:
    """Every name that is imported; what is pushed last before STACK_GLOBAL are its module and its name."""
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("GLOBAL", "INST"):
                yield str(argument).replace(" ", ".")
            elif opcode.name == "STACK_GLOBAL":
                yield ".".join(texts[-2:])
            elif isinstance(argument, str):
                texts.append(argument)
    except ValueError:  # no pickle, or no more of one: genops' own word for both
        return
