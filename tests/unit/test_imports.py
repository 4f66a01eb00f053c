"""Package structure: dependencies point one way, and code outside a package uses its public API only."""

import ast
import importlib
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = {"tf_transformer": ROOT / "tf_transformer", "pipelines": ROOT / "pipelines", "export": ROOT / "export"}

# What each package may import besides itself and the private modules at the root (`_files`, `_progress`, …).
ALLOWED = {
    "layers": (),
    "text": (),
    "config": (),
    "presets": ("config",),
    "model": ("config", "presets", "layers"),
    "data": ("text",),
    "workdir": ("config", "layers", "model", "text"),
    "decoding": ("config", "layers", "model", "text", "workdir"),
    "evaluation": ("decoding", "text"),
    "training": ("config", "data", "decoding", "evaluation", "layers", "model", "text", "workdir"),
    "importing": ("config", "decoding", "layers", "model", "text", "workdir"),
    "analysis": (
        "config",
        "data",
        "decoding",
        "evaluation",
        "layers",
        "model",
        "presets",
        "text",
        "training",
        "workdir",
    ),
    "distillation": ("config", "data", "decoding", "evaluation", "text", "training", "workdir"),
    "export": ("config", "data", "decoding", "layers", "model", "text", "workdir"),
    "pipelines": (
        "config",
        "presets",
        "text",
        "data",
        "workdir",
        "decoding",
        "evaluation",
        "training",
        "importing",
        "analysis",
        "distillation",
        "export",
    ),
}
LARGEST_PACKAGE = 16


def modules() -> dict[str, pathlib.Path]:
    """Every module of the library by its installed name."""
    found = {}
    for name, folder in FOLDERS.items():
        prefix = "tf_transformer" if name == "tf_transformer" else f"tf_transformer.{name}"
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([prefix, *parts])] = path
    return found


MODULES = modules()


def imports_of(source: str) -> set[tuple[str, str | None]]:
    """(module, name) of every import statement in `source`, wherever it stands; name None for `import module`."""
    found: set[tuple[str, str | None]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, None) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            found |= {(node.module, alias.name) for alias in node.names}
    return found


IMPORTS = {name: imports_of(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def package_of(name: str) -> str:
    """The part of the library that a module belongs to: `layers`, `config`, … or "" for the root."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def home(module: str, name: str | None) -> str:
    """The module that an import statement loads: `from a import b` may mean the module a.b."""
    return f"{module}.{name}" if name and f"{module}.{name}" in MODULES else module


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def dependencies() -> dict[str, set[str]]:
    """For every package the others that it imports."""
    found: dict[str, set[str]] = {}
    for name, imports in IMPORTS.items():
        targets = {package_of(home(*each)) for each in imports if within(each[0], "tf_transformer")}
        found.setdefault(package_of(name), set()).update(targets - {package_of(name), ""})
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_packages_import_only_what_is_below_them(package):
    others = {other for other in dependencies()[package] if not other.startswith("_")}
    assert others <= set(ALLOWED[package]), f"{package} also imports {sorted(others - set(ALLOWED[package]))}"


def test_every_package_has_its_rule():
    named = {name for name in dependencies() if name and not name.startswith("_")}
    assert named == set(ALLOWED)


def test_the_rules_are_acyclic():
    done: set[str] = set()

    def visit(name, path):
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for other in ALLOWED[name]:
                visit(other, [*path, name])
            done.add(name)

    for name in ALLOWED:
        visit(name, [])


def test_modules_are_acyclic():
    done: set[str] = set()

    def visit(name, path):
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for each in IMPORTS[name]:
                target = home(*each)
                # A package's `__init__` loads its modules on first use.
                if target in MODULES and MODULES[target].name != "__init__.py":
                    visit(target, [*path, name])
            done.add(name)

    for name in MODULES:
        visit(name, [])


def test_private_modules_at_the_root_import_no_package():
    for name in MODULES:
        if package_of(name).startswith("_") and name != "tf_transformer._registration":
            others = {package_of(home(*each)) for each in IMPORTS[name] if within(each[0], "tf_transformer")}
            assert all(other.startswith("_") or not other for other in others), f"{name} imports {others}"


def private_imports(owner: str | None, imports) -> list[str]:
    """Imports that reach past the public API of a package that `owner` does not belong to."""
    found = []
    for module, name in sorted(imports, key=str):
        full = home(module, name)
        parts = full.split(".")
        private = next((i for i, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")), None)
        if not within(module, "tf_transformer") or private is None:
            continue
        package = ".".join(parts[:private])
        if package == "tf_transformer" and owner is not None:
            continue  # shared by the whole library
        if owner is None or not within(owner, package):
            found.append(f"{module}: {name}" if name else module)
    return found


@pytest.mark.parametrize("name", sorted(MODULES))
def test_other_packages_are_used_through_their_public_api(name):
    assert not private_imports(name, IMPORTS[name])


def outside_sources() -> dict[str, str]:
    """Python code outside the library: benchmarks, tutorials, and the examples of README and docs."""
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "benchmarks").rglob("*.py"))}
    sources |= {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "docs").rglob("*.py"))}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)
        sources |= {f"{path.relative_to(ROOT)} block {number}": block for number, block in enumerate(blocks)}
    return sources


OUTSIDE = outside_sources()


@pytest.mark.parametrize("where", sorted(OUTSIDE))
def test_code_outside_the_library_uses_public_names(where):
    imports = imports_of(OUTSIDE[where])
    assert not private_imports(None, imports)
    for module, name in imports:
        if within(module, "tf_transformer") and name is not None:
            found = importlib.import_module(module)
            assert name in getattr(found, "__all__", [name]), f"{module} does not export {name}"


def test_public_names_exist():
    for name, path in MODULES.items():
        if path.name == "__init__.py" and path.with_suffix(".pyi").exists():
            package = importlib.import_module(name)
            assert package.__doc__ and package.__all__
            for public in package.__all__:
                assert getattr(package, public) is not None, f"{name}.{public}"


def test_packages_have_few_modules():
    sizes: dict[pathlib.Path, int] = {}
    for path in MODULES.values():
        if path.name != "__init__.py" and "phrasebook" not in path.parts and path.parent.name != "pipelines":
            sizes[path.parent] = sizes.get(path.parent, 0) + 1
    crowded = {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > LARGEST_PACKAGE}
    assert not crowded


def test_the_library_imports_no_command_line_parser():
    for name, imports in IMPORTS.items():
        if not within(name, "tf_transformer.pipelines", "tf_transformer.export.serving"):
            wrong = {module for module, _ in imports if within(module, "argparse", "absl.flags", "click", "benchmarks")}
            assert not wrong, f"{name} imports {wrong}"


def test_beam_search_knows_no_model():
    reached: set[str] = set()
    waiting = ["tf_transformer.decoding._beam_search"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting.extend({home(*each) for each in IMPORTS[name] if home(*each) in MODULES} - reached)
    assert all(within(name, "tf_transformer.decoding") for name in reached), reached
    assert not any("decoder_step" in name or "translator" in name for name in reached)


def test_losses_and_schedules_are_leaves():
    for name in ("_losses", "_schedules"):
        assert not [each for each in IMPORTS[f"tf_transformer.training.{name}"] if within(each[0], "tf_transformer")]


def test_layers_and_model_use_no_tensorflow():
    for name, imports in IMPORTS.items():
        if within(name, "tf_transformer.layers", "tf_transformer.model"):
            assert not any(within(module, "tensorflow") for module, _ in imports), name


def test_every_module_is_in_the_package_list():
    listed = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    packages = {line.strip() for line in listed.split("packages =")[1].split("install_requires")[0].splitlines()}
    for name, path in MODULES.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        assert package in packages, f"{package} is missing in setup.cfg"
