"""oneDNN from upstream's git repository, verified against the pinned commit."""

import os
import shutil
import subprocess
from pathlib import Path

from .pins import GitPin
from .report import UnavailableError, say


class GitSource:
    """The pinned release in a git repository."""

    name = "upstream git"

    def __init__(self, pin: GitPin, url: str | None = None) -> None:
        self.version = pin.version
        # The commit names the content whichever repository it comes from.
        self.identity = f"git:{pin.commit}"
        self._pin = pin
        self._url = url or pin.url

    def fetch(self, into: Path) -> None:
        """Fill the empty directory with the release; raise UnavailableError if it can't be had."""
        if shutil.which("git") is None:
            raise UnavailableError("git is not installed")
        self._probe()
        say(f"fetching {self._pin.tag} from {self._url}")
        # A stalled transfer ends by itself instead of hanging an unattended build.
        patience = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30")
        _git("init", "--quiet", str(into))
        _git(
            *patience, "fetch", "--quiet", "--depth=1", self._url, f"refs/tags/{self._pin.tag}",
            cwd=into,
        )  # fmt: skip
        commit = _git("rev-parse", "FETCH_HEAD^{commit}", cwd=into)
        if commit != self._pin.commit:
            raise UnavailableError(
                f"tag {self._pin.tag} is commit {commit}, but {self._pin.commit} is pinned"
            )
        _git("-c", "advice.detachedHead=false", "checkout", "--quiet", commit, cwd=into)

    def _probe(self) -> None:
        # Asking for one name shows within seconds whether there is a way to the repository.
        seconds = self._pin.probe_seconds
        try:
            found = _git("ls-remote", self._url, f"refs/tags/{self._pin.tag}", timeout=seconds)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"no answer from {self._url} in {seconds} s") from None
        if not found:
            raise UnavailableError(f"{self._url} has no tag {self._pin.tag}")


def _git(*arguments: str, cwd: Path | None = None, timeout: float | None = None) -> str:
    # Neither a password nor a host key prompt may stop an unattended build.
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "LC_ALL": "C"}
    quiet["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o ConnectTimeout=5"
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env={**_without_repository(), **quiet},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        verb = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise UnavailableError(lines[-1].removeprefix("fatal: ") if lines else f"git {verb} failed")
    return done.stdout.strip()


def _without_repository() -> dict[str, str]:
    # Inside a git hook these point at the hook's repository and would win over cwd.
    names = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    return {name: value for name, value in os.environ.items() if name not in names}
