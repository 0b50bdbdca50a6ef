"""The filter of system calls for the sandbox: what no mount and no namespace shuts off.

Keyrings belong to the user and not to a namespace; sockets of some families, those to the host of
a virtual machine first, belong to no network namespace; and new user namespaces would hand out
capabilities again. No mount option keeps the owner of a file from giving it a setuid or setgid bit,
which acts outside once the command has ended: every call that sets the mode of a file is refused
with one. The filter is a program for the kernel's classic packet filter, as bubblewrap takes it
from a file descriptor.
"""

from __future__ import annotations

import os
import platform
import struct
from errno import EAFNOSUPPORT, ENOSYS, EPERM
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000  # the error number goes into the low bits
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in what the kernel shows of a call
_NEW_USER = 0x10000000  # CLONE_NEWUSER
_OTHER_ABI = 0x40000000  # x32 calls of a 64-bit machine have this bit
# The same everywhere.
_CLONE3, _IO_URING_SETUP, _OPENAT2, _FCHMODAT2 = 435, 425, 437, 452
SET_ID_BITS = (0o4000, 0o2000)  # S_ISUID, S_ISGID
# O_CREAT, and the bit of O_TMPFILE that is its own: only with one of them is there a mode.
MAKES_FILE = (0o100, 0o20000000)
FAMILIES = (1, 2, 10, 16)  # unix, IPv4, IPv6, netlink: those that network namespaces hold


class _Machine(Struct, frozen=True, kw_only=True):
    """The numbers of one kind of machine.

    Attributes:
        modes: Calls that set the mode of a file, each with the place of that argument.
        opens: Calls that may make a file, each with the place of its flags; the mode is the next.
    """

    audit: int
    clone: int
    unshare: int
    setns: int
    socket: int
    keys: tuple[int, int, int]
    modes: tuple[tuple[int, int], ...]
    opens: tuple[tuple[int, int], ...]


_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        clone=56,
        unshare=272,
        setns=308,
        socket=41,
        keys=(248, 249, 250),
        # creat, chmod, fchmod, mknod, mknodat, fchmodat; open, openat
        modes=((85, 1), (90, 1), (91, 1), (133, 1), (259, 2), (268, 2)),
        opens=((2, 1), (257, 2)),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        clone=220,
        unshare=97,
        setns=268,
        socket=198,
        keys=(217, 218, 219),
        # mknodat, fchmod, fchmodat; openat
        modes=((33, 2), (52, 1), (53, 2)),
        opens=((56, 2),),
    ),
}


def build_filter(*, network: bool) -> bytes | None:
    """Return the program for this machine, None where its numbers are not known.

    With `network` sockets of all families can be made.
    """
    numbers = _MACHINES.get(platform.machine())
    if numbers is None:
        return None
    return b"".join(_instructions(numbers, network=network))


def filter_file(program: bytes) -> int:
    """Return a descriptor that reads the program once; the caller closes it."""
    descriptor = os.memfd_create("prsm-filter")
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _instructions(numbers: _Machine, *, network: bool) -> Iterator[bytes]:
    # Other machines' calls, 32-bit ones that is, would go by other numbers.
    yield _op(_LOAD, _MACHINE)
    yield _op(_EQUAL, numbers.audit, 1, 0)
    yield _refuse(ENOSYS)
    yield _op(_LOAD, _NUMBER)
    yield _op(_AT_LEAST, _OTHER_ABI, 0, 1)
    yield _refuse(ENOSYS)
    for number in (*numbers.keys, numbers.setns):
        yield from _when(number, (_refuse(EPERM),))
    # Their arguments lie in memory, where no filter sees them; libraries do without them.
    for number in (_CLONE3, _IO_URING_SETUP, _OPENAT2):
        yield from _when(number, (_refuse(ENOSYS),))
    flags = (_argument(0), _op(_ANY_BIT, _NEW_USER, 0, 1), _refuse(EPERM), _allow())
    for number in (numbers.clone, numbers.unshare):
        yield from _when(number, flags)
    yield from _no_set_id(numbers)
    if not network:
        known = tuple(
            _op(_EQUAL, family, len(FAMILIES) - place, 0) for place, family in enumerate(FAMILIES)
        )
        family = (_argument(0), *known, _refuse(EAFNOSUPPORT), _allow())
        yield from _when(numbers.socket, family)
    yield _allow()


def _no_set_id(numbers: _Machine) -> Iterator[bytes]:
    """Yield what refuses to make a file setuid or setgid, by whatever call.

    A folder that is setgid stays so, and what is made in it is, by the kernel alone.
    """
    refused = (_op(_ANY_BIT, sum(SET_ID_BITS), 0, 1), _refuse(EPERM), _allow())
    for number, place in (*numbers.modes, (_FCHMODAT2, 2)):
        yield from _when(number, (_argument(place), *refused))
    makes = sum(MAKES_FILE)
    for number, place in numbers.opens:
        opened = (_argument(place), _op(_ANY_BIT, makes, 1, 0), _allow(), _argument(place + 1))
        yield from _when(number, (*opened, *refused))


def _argument(place: int) -> bytes:
    """Return what loads an argument; of 64 bits the low half, which holds flags and modes."""
    return _op(_LOAD, _FIRST_ARGUMENT + 8 * place)


def _when(number: int, body: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield what runs `body` for one call; the number stays loaded for what follows it."""
    yield _op(_EQUAL, number, 0, len(body))
    yield from body


def _allow() -> bytes:
    return _op(_RETURN, _ALLOW)


def _refuse(error: int) -> bytes:
    return _op(_RETURN, _REFUSE | error)


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
