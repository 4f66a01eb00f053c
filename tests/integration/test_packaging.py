"""The wheel: what is in it, what it leaves out, and that a clean environment can use it."""

import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("copy")
    # A copy: setuptools would take what an earlier build left in ROOT/build for a part of the package.
    for name in ("tf_transformer", "pipelines", "export"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """A Python with the wheel installed and, through a .pth file, the dependencies of this one."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    command = [interpreter, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    here = next(path for path in map(pathlib.Path, sys.path) if (path / "tensorflow").is_dir())
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for entry in here.iterdir():
        # Everything but ourselves: the editable install's finder would hide what the wheel lacks.
        if not entry.name.startswith(("tf_transformer", "__editable__", "pip", "_distutils_hack", "distutils")):
            (dependencies / entry.name).symlink_to(entry)
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return interpreter


def run(python, code, folder):
    return subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)


def test_the_wheel_holds_every_module_and_no_generic_names(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tf_transformer"}
    for folder, prefix in (("tf_transformer", ""), ("pipelines", "pipelines/"), ("export", "export/")):
        for path in (ROOT / folder).rglob("*.py"):
            assert f"tf_transformer/{prefix}{path.relative_to(ROOT / folder).as_posix()}" in names
    static = ROOT / "export" / "serving" / "page" / "static"
    files = [path.relative_to(ROOT).as_posix() for path in static.rglob("*") if path.is_file()]
    assert len(files) > 15 and {f"tf_transformer/{name}" for name in files} <= set(names)


def test_an_installed_wheel_has_the_model_and_the_commands(python, tmp_path):
    done = run(
        python,
        "import tf_transformer, tf_transformer.pipelines.cli as cli, tf_transformer.export, numpy as np\n"
        "model = tf_transformer.Transformer.from_preset('tiny', vocab_size=11)\n"
        "print(model({'source': np.array([[5, 3]]), 'target': np.array([[2]])}).shape)\n"
        "raise SystemExit(cli.main(['presets']))",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "(1, 1, 11)" in done.stdout and "C-ff4096" in done.stdout
    script = subprocess.run([python.parent / "tf-transformer", "presets"], cwd=tmp_path, capture_output=True, text=True)
    assert script.returncode == 0 and "C-ff4096" in script.stdout


@pytest.mark.parametrize("name", ["pipelines", "export", "tests", "benchmarks"])
def test_outside_a_checkout_generic_names_do_not_import(python, name, tmp_path):
    done = run(python, f"import {name}", tmp_path)
    assert done.returncode == 1 and f"No module named '{name}'" in done.stderr


def test_a_bare_checkout_runs_its_commands(python, tmp_path):
    """`python -m pipelines.presets` in a checkout, with a Python that has the dependencies but not the package."""
    dependencies = python.parent.parent / "dependencies"
    command = [sys.executable, "-S", "-m", "pipelines.presets"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(dependencies)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "C-ff4096" in done.stdout
