"""oneDNN from Debian's source package, fetched with apt and verified against its SHA-256."""

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from .pins import DebianPin
from .report import UnavailableError, say


class DebianSource:
    """Upstream's tarball inside the pinned Debian source package."""

    name = "Debian's source package"

    def __init__(self, pin: DebianPin, mirror: str | None = None) -> None:
        self.version = pin.version
        self.identity = f"sha256:{pin.sha256}"
        self._pin = pin
        self._mirror = mirror

    def fetch(self, into: Path) -> None:
        """Fill the empty directory with the release; raise UnavailableError if it can't be had."""
        if shutil.which("apt-get") is None:
            raise UnavailableError("this system has no apt-get")
        mirrors = [self._mirror] if self._mirror else _mirrors()
        if not mirrors:
            raise UnavailableError(
                "apt's sources name no Debian mirror (ONEDNN_DEBIAN_MIRROR can name one)"
            )
        work = into.with_name(f"{into.name}.apt")
        shutil.rmtree(work, ignore_errors=True)
        try:
            tarball = self._download(mirrors, work)
            _unpack(self._verified(tarball), tarball.name, work / "unpacked", into)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _download(self, mirrors: list[str], work: Path) -> Path:
        package = f"{self._pin.package}={self._pin.package_version}"
        say(f"fetching Debian's source package {package} (suite {self._pin.suite})")
        reason = ""
        for mirror in mirrors:
            try:
                apt = _private_apt(work, mirror, self._pin.suite)
                _run([*apt, "update"], work)
                _run([*apt, "source", "--download-only", package], work)
            except UnavailableError as error:
                reason = str(error)
                continue
            if (work / self._pin.file).is_file():
                return work / self._pin.file
            reason = f"{package} holds no file {self._pin.file}"
        raise UnavailableError(reason)

    def _verified(self, tarball: Path) -> bytes:
        """Return the bytes that were verified: a file could be another when it is read again."""
        data = tarball.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != self._pin.sha256:
            raise UnavailableError(
                f"{tarball.name} has SHA-256 {digest}, but {self._pin.sha256} is pinned"
            )
        return data


def _mirrors() -> list[str]:
    # Printing URIs needs neither root nor the network nor lists that were downloaded before.
    done = subprocess.run(
        ["apt-get", "update", "--print-uris"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^'([^']+/debian)/dists/", done.stdout, flags=re.MULTILINE)
    return list(dict.fromkeys(found))


def _private_apt(work: Path, mirror: str, suite: str) -> list[str]:
    # An apt of its own: the system's lists stay as they are, and no root is needed.
    for folder in ("state/lists/partial", "cache/archives/partial", "empty"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    # "trusted": the pinned SHA-256 of the one file used is stricter than the archive's signature,
    # and it can be checked where the keys of this suite aren't installed.
    (work / "sources.list").write_text(f"deb-src [trusted=yes] {mirror} {suite} main\n")
    options = {
        "Dir::State": work / "state",
        "Dir::State::Lists": work / "state/lists",
        "Dir::Cache": work / "cache",
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": work / "empty",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "10",
        "Acquire::https::Timeout": "10",
    }
    return ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        lines = done.stdout.splitlines()
        faults = [line for line in lines if line.startswith(("E:", "Err:", "W:"))] or lines
        raise UnavailableError(faults[0] if faults else "apt-get failed without a word")


def _unpack(data: bytes, name: str, unpacked: Path, into: Path) -> None:
    """Unpack a tarball without its single top folder."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(unpacked, filter="data")
            else:  # Python before 3.10.12; the content is pinned, so this is no less safe
                archive.extractall(unpacked)
    except (tarfile.TarError, OSError, EOFError) as error:
        # Also raised by a Python that was built without lzma.
        raise UnavailableError(f"{name} can't be unpacked: {error}") from None
    found = list(unpacked.iterdir())
    if len(found) != 1 or found[0].is_symlink() or not found[0].is_dir():
        raise UnavailableError(f"{name} can't be unpacked: it does not hold one folder")
    into.rmdir()
    found[0].rename(into)
