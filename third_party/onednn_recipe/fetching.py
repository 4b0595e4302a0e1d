"""oneDNN's releases in git and in Debian, fetched and verified against what is pinned."""

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .report import UnavailableError, say
from .trees import Source


@dataclass(frozen=True)
class GitSource(Source):
    """A release in upstream's git repository."""

    version: str
    url: str
    tag: str
    commit: str
    probe_seconds: float

    name = "upstream git"

    @property
    def identity(self) -> str:
        """The commit, which names the content whichever repository it comes from."""
        return f"git:{self.commit}"

    def fetch(self, into: Path) -> None:
        """Fill the empty directory with the release; raise UnavailableError if it can't be had."""
        if shutil.which("git") is None:
            raise UnavailableError("git is not installed")
        self._probe()
        say(f"fetching {self.tag} from {self.url}")
        # A stalled transfer ends by itself instead of hanging an unattended build.
        patience = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30")
        place = ["--quiet", "--depth=1", self.url, f"refs/tags/{self.tag}"]
        _git("init", "--quiet", str(into))
        _git(*patience, "fetch", *place, cwd=into)
        commit = _git("rev-parse", "FETCH_HEAD^{commit}", cwd=into)
        if commit != self.commit:
            raise UnavailableError(
                f"tag {self.tag} is commit {commit}, but {self.commit} is pinned"
            )
        _git("-c", "advice.detachedHead=false", "checkout", "--quiet", commit, cwd=into)

    def _probe(self) -> None:
        # Asking for one name shows within seconds whether there is a way to the repository.
        seconds = self.probe_seconds
        try:
            listed = _git("ls-remote", self.url, f"refs/tags/{self.tag}", timeout=seconds)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"no answer from {self.url} in {seconds} s") from None
        if not listed:
            raise UnavailableError(f"{self.url} has no tag {self.tag}")


@dataclass(frozen=True)
class DebianSource(Source):
    """Upstream's tarball inside a Debian source package, of which nothing else is used."""

    version: str
    suite: str
    package: str
    package_version: str
    file: str
    sha256: str
    mirror: str | None = None

    name = "Debian's source package"

    @property
    def identity(self) -> str:
        """The tarball's content."""
        return f"sha256:{self.sha256}"

    def fetch(self, into: Path) -> None:
        """Fill the empty directory with the release; raise UnavailableError if it can't be had."""
        if shutil.which("apt-get") is None:
            raise UnavailableError("this system has no apt-get")
        mirrors = [self.mirror] if self.mirror else _mirrors()
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
        package = f"{self.package}={self.package_version}"
        say(f"fetching Debian's source package {package} (suite {self.suite})")
        reason = ""
        for mirror in mirrors:
            try:
                apt = _private_apt(work, mirror, self.suite)
                _run([*apt, "update"], work)
                _run([*apt, "source", "--download-only", package], work)
            except UnavailableError as error:
                reason = str(error)
                continue
            if (work / self.file).is_file():
                return work / self.file
            reason = f"{package} holds no file {self.file}"
        raise UnavailableError(reason)

    def _verified(self, tarball: Path) -> bytes:
        """Return the bytes that were verified: a file could be another when it is read again."""
        data = tarball.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != self.sha256:
            raise UnavailableError(
                f"{tarball.name} has SHA-256 {digest}, but {self.sha256} is pinned"
            )
        return data


def _mirrors() -> list[str]:
    # Printing URIs needs neither root nor the network nor lists that were downloaded before.
    uris = _run(["apt-get", "update", "--print-uris"])
    return list(dict.fromkeys(re.findall(r"^'([^']+/debian)/dists/", uris, re.MULTILINE)))


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


def _git(*arguments: str, cwd: Path | None = None, timeout: float | None = None) -> str:
    # Neither a password nor a host key prompt may stop an unattended build.
    env = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": ""}
    env["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o ConnectTimeout=5"
    return _run(["git", *arguments], cwd, timeout, **env).strip()


def _run(
    command: Sequence[str], cwd: Path | None = None, timeout: float | None = None, **env: str
) -> str:
    """Return what a command prints; raise UnavailableError with its complaint if it fails."""
    # Inside a git hook these point at the hook's repository and would win over cwd.
    hooks = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    kept = {name: value for name, value in os.environ.items() if name not in hooks}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **env, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
        faults = [line for line in lines if line.startswith(("fatal:", "E:", "Err:", "W:"))]
        first = next(iter(faults or lines), f"{command[0]} failed without a word")
        raise UnavailableError(first.removeprefix("fatal: "))
    return done.stdout


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
