"""Imports point one way, as the house is drawn: checked in the source of every module."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = {"tf_transformer": ROOT / "tf_transformer", "pipelines": ROOT / "pipelines", "export": ROOT / "export"}


def modules():
    """Every module of the package by its installed name."""
    found = {}
    for name, folder in FOLDERS.items():
        prefix = "tf_transformer" if name == "tf_transformer" else f"tf_transformer.{name}"
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([prefix, *parts])] = path
    return found


MODULES = modules()


def imports_of(path):
    """All modules that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


IMPORTS = {name: imports_of(path) for name, path in MODULES.items()}


def ours(name):
    packages = {package for package in MODULES if MODULES[package].name == "__init__.py"}
    return {other for other in IMPORTS[name] if other in MODULES} - (packages - {"tf_transformer.layers"})


def within(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


LIBRARY = [n for n in MODULES if not within(n, "tf_transformer.pipelines", "tf_transformer.export")]
LEAVES = {
    "tf_transformer.layers": ("tf_transformer.layers",),
    "tf_transformer.text": ("tf_transformer.text",),
    "tf_transformer.training._losses": (),
    "tf_transformer.training._schedules": (),
}


@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves_import_nothing_of_ours_but_their_own(leaf):
    found = [name for name in MODULES if within(name, leaf)]
    assert found
    for name in found:
        outside = {other for other in ours(name) if not within(other, *LEAVES[leaf], "tf_transformer._version")}
        assert not outside, f"{name} imports {outside}"


def test_the_library_imports_neither_commands_nor_exports_nor_a_command_line_parser():
    for name in LIBRARY:
        wrong = {
            other
            for other in IMPORTS[name]
            if within(other, "tf_transformer.pipelines", "tf_transformer.export", "pipelines", "export", "benchmarks")
            or within(other, "argparse", "absl.flags", "click")
        }
        assert not wrong, f"{name} imports {wrong}"


def test_beam_search_knows_no_model():
    reached, waiting = set(), ["tf_transformer.decoding._beam_search"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting.extend(ours(name) - reached)
    assert all(within(name, "tf_transformer.decoding") for name in reached), reached
    assert not any("decoder_step" in name or "translator" in name for name in reached)


def test_layers_and_model_use_no_tensorflow():
    for name in MODULES:
        if within(name, "tf_transformer.layers", "tf_transformer.model"):
            assert not any(within(other, "tensorflow") for other in IMPORTS[name]), name


ALLOWED = {
    "tf_transformer.model": ("layers", "config", "presets"),
    "tf_transformer.config": ("typed_fields",),
    "tf_transformer.presets": ("config",),
    "tf_transformer.data": ("data", "text", "version", "durable_files"),
    "tf_transformer.workdir": (
        "model",
        "config",
        "text",
        "version",
        "durable_files",
        "training.checkpoints",
        "training.model_weights",
    ),
}


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_what_is_below_them(package):
    allowed = [f"tf_transformer.{name}" for name in ALLOWED[package]]
    for name in MODULES:
        if within(name, package):
            outside = {other for other in ours(name) if not within(other, *allowed)}
            assert not outside, f"{name} imports {outside}"


def test_there_are_no_cycles():
    def visit(name, path):
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for other in ours(name):
                visit(other, [*path, name])
            done.add(name)

    done = set()
    for name in MODULES:
        visit(name, [])


def test_every_module_is_in_the_package_list():
    listed = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    packages = {line.strip() for line in listed.split("packages =")[1].split("install_requires")[0].splitlines()}
    for name, path in MODULES.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        assert package in packages, f"{package} is missing in setup.cfg"
