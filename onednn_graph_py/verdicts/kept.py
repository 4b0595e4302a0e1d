"""Verdicts on disk, in sealed files; only those that this user found on this machine count."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import _core
from ..machine.store import facts, folder, place, save
from ..text.files import Unreadable, open_limited, read_limited
from ..text.owners import changed_by_others, make_folders
from .verdict import Limits, Outcome, Verdict

__all__ = ["Kept", "number_kept"]

_SECRET_BYTES = 32
_LARGEST = 1 << 20  # bytes of a verdict's file, which has a few thousand


class _Untrusted(Exception):
    """Raised for a file whose verdict can't be trusted."""


class Kept:
    """The verdicts of this oneDNN on this CPU, for a number of threads.

    Each verdict has its own file that is replaced as a whole, so that any number of processes may
    read and write. It names its partition, and is sealed with a secret of the user and machine.

    Parameters
    ----------
    threads : int
    reference : float
        Time limit of the reference in seconds, which decides which partitions stay unverified.
    """

    def __init__(self, threads: int, reference: float = Limits.reference) -> None:
        about = (threads, reference, _core.get_cpu_isa_hints().name)
        self._facts = json.loads(json.dumps(facts(*about)))
        self._folder = place("verdicts", *about).with_suffix("")
        self._secret: bytes | None = None
        self._warned = False

    def _file(self, signature: str) -> Path:
        return self._folder / f"{hashlib.sha256(signature.encode()).hexdigest()[:32]}.json"

    def find(self, signature: str) -> Verdict | None:
        """Read the verdict on a partition; None if there is none that can be trusted."""
        file = self._file(signature)
        try:
            text = read_limited(file, _LARGEST)
        except (OSError, Unreadable) as e:
            if isinstance(e, Unreadable):
                self._warn(file, str(e))
            return None
        try:
            return replace(self._trusted(text, signature), kept=True)
        except _Untrusted as e:
            self._warn(file, str(e))
            return None

    def _trusted(self, text: bytes, signature: str) -> Verdict:
        try:
            found = json.loads(text)
            told, seal = found["told"], str(found["seal"])
            about, of = told["facts"], told["signature"]
            verdict = Verdict(**{**told["verdict"], "outcome": Outcome(told["verdict"]["outcome"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            raise _Untrusted("it is damaged") from None
        if about != self._facts:
            raise _Untrusted("it is for another oneDNN, CPU or package")
        expected = self._seal(told)
        if expected is None or not hmac.compare_digest(
            seal.encode(errors="replace"), expected.encode()
        ):
            raise _Untrusted("another machine or user wrote it, or it was changed")
        if of != signature:
            raise _Untrusted("it is for another partition")
        return verdict

    def keep(self, signature: str, verdict: Verdict) -> None:
        """Write a verdict for other processes, if the folder can be written to."""
        told = {
            "facts": self._facts,
            "signature": signature,
            "verdict": {**asdict(verdict), "outcome": verdict.outcome.value, "kept": False},
        }
        seal = self._seal(json.loads(json.dumps(told)), make=True)
        if seal is not None:
            save(self._file(signature), {"told": told, "seal": seal})

    def _warn(self, file: Path, why: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the verdict in {file} is ignored: {why}; its partition is judged again, and so "
                "are all others of which that is true",
                RuntimeWarning,
                stacklevel=2,
            )

    def _seal(self, told: Any, *, make: bool = False) -> str | None:
        if self._secret is None:
            self._secret = _secret(folder() / "verdicts" / "secret", make=make)
        if self._secret is None:
            return None
        return hmac.new(
            self._secret + _machine(), json.dumps(told, sort_keys=True).encode(), "sha256"
        ).hexdigest()


def number_kept() -> int:
    """Count the verdicts on disk, of any oneDNN, CPU and number of threads."""
    return sum(1 for _ in (folder() / "verdicts").glob("*/*.json"))


def _machine() -> bytes:
    """Return an id of this machine and user, which a folder copied from another does not match."""
    try:
        name = Path("/etc/machine-id").read_text().strip()
    except OSError:
        name = os.uname().nodename
    return f"{name} {os.geteuid()}".encode()


def _secret(file: Path, *, make: bool) -> bytes | None:
    """Return the secret that only the user can read; if missing, make it or return None."""
    for _ in range(2):
        missing = False
        try:
            with open_limited(file, _SECRET_BYTES, owners=(os.geteuid(),)) as opened:
                private = not os.fstat(opened.fileno()).st_mode & 0o077
                found = opened.read()
            if private and len(found) == _SECRET_BYTES and not changed_by_others(file):
                return found
        except FileNotFoundError:
            missing = True
        except (OSError, Unreadable):
            pass
        if not make:
            return None
        _write_secret(file, anew=not missing)
    return None


def _write_secret(file: Path, *, anew: bool) -> None:
    """Write a new secret; keep one that another process has made, unless `anew`."""
    partial = file.with_name(f"{file.name}.{secrets.token_hex(8)}.partial")
    with contextlib.suppress(OSError):
        make_folders(file.parent)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as opened:
                opened.write(secrets.token_bytes(_SECRET_BYTES))
            if anew:
                partial.replace(file)
            else:
                os.link(partial, file)
        finally:
            partial.unlink(missing_ok=True)
