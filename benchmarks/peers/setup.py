"""Create the virtual environments of the peers: `python -m benchmarks.peers.setup ENVS`.

ENVS/torch contains PyTorch, transformers and CTranslate2; ENVS/opennmt contains OpenNMT-tf with its own TensorFlow,
which needs Python 3.8 to 3.11. Environments that are complete are kept.
"""

import argparse
import pathlib
import subprocess
import sys
import venv

# Each command of `pip install`, in order.
REQUIREMENTS = {
    "torch": (("torch==2.13.0",), ("transformers", "ctranslate2", "sentencepiece")),
    "opennmt": (("OpenNMT-tf[tensorflow]==2.32.0", "numpy<2"),),
}
COMPLETE = "peers-installed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", metavar="ENVS", type=pathlib.Path, help="folder for the virtual environments")
    parser.add_argument("--only", choices=sorted(REQUIREMENTS), help="create this environment only")
    args = parser.parse_args()
    for name in [args.only] if args.only else REQUIREMENTS:
        create(args.environments / name, REQUIREMENTS[name])
    return 0


def create(folder: pathlib.Path, requirements: tuple[tuple[str, ...], ...]) -> None:
    """Install `requirements` into a virtual environment at `folder`, unless it is complete already."""
    if (folder / COMPLETE).exists():
        print(f"{folder}: complete", file=sys.stderr)
        return
    print(f"{folder}: creating", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    for packages in requirements:
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True)
    (folder / COMPLETE).touch()


if __name__ == "__main__":
    sys.exit(main())
