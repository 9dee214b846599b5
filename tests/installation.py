"""What a user installs: the wheel and the sdist of this checkout, in environments of their own."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "build", "dist", "runs", "data", "wandb", "results")


def copy_checkout(folder: Path) -> Path:
    """Copy what is built from, with all packages that must stay out; a build writes into it."""
    top = shutil.ignore_patterns(*LEFT_OUT)
    inside = shutil.ignore_patterns("__pycache__")

    def ignored(path: str, names: list[str]) -> set[str]:
        return (top if Path(path) == ROOT else inside)(path, names)

    return Path(shutil.copytree(ROOT, folder, ignore=ignored))


def build(checkout: Path, kind: str, folder: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` with the setuptools that is here."""
    call = f"import setuptools.build_meta as b, sys; b.build_{kind}(sys.argv[1])"
    run([sys.executable, "-c", call, str(folder)], cwd=checkout)
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


class Environment:
    """A virtual environment that sees what is installed here, torch above all, save `bload`."""

    def __init__(self, folder: Path, wheel: Path | None = None, *requirements: str | Path) -> None:
        """Make it, and install the wheel and what else is required, in pip's words."""
        venv.create(folder, symlinks=True)
        self.python = folder / "bin/python"
        (packages,) = folder.glob("lib/python*/site-packages")
        here = [path for path in sys.path if path.endswith("site-packages")]
        # Editable installs are .pth files, which Python does not follow from another .pth file.
        (packages / "parent.pth").write_text("\n".join(here))
        if requirements:
            self.install(*requirements)
        if wheel:
            self.install("--no-deps", wheel)

    def install(self, *arguments: str | Path) -> None:
        """Install by pip, from the registry what is not here."""
        self.run("-m", "pip", "install", "--quiet", "--no-compile", *arguments, cwd=ROOT.parent)

    def run(
        self, *arguments: str | Path, cwd: Path, fails: bool = False, more: Mapping[str, str] = {}
    ) -> str:
        """Run Python there and return its output; it has to end well, or badly if `fails`."""
        return run([self.python, *arguments], cwd, fails, more)


def torchrun(ranks: int) -> list[str]:
    """What starts a program on ranks, after ``python``."""
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]


def run(
    command: list[str | Path], cwd: Path, fails: bool = False, more: Mapping[str, str] = {}
) -> str:
    """Run a command without this checkout on its path and return its standard output."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | {"OMP_NUM_THREADS": "1"} | more,
        timeout=600,
        capture_output=True,
        text=True,
    )
    assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout
