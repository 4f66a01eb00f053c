"""The Python-free reader of SavedModels: built against the libraries inside the tensorflow wheel, and run."""

import pathlib
import shutil
import subprocess

import tensorflow as tf

SOURCE = pathlib.Path(__file__).with_name("saved_model_reader.cc")
PACKAGES = pathlib.Path(tf.sysconfig.get_lib()).parent
_DIALECT = ["-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64"]


def has_compiler() -> bool:
    """Whether there is a C++ compiler on this machine."""
    return shutil.which("g++") is not None


def build_reader(directory: pathlib.Path, packages: pathlib.Path = PACKAGES) -> pathlib.Path:
    """Compiles the reader into `directory`, against the tensorflow in `packages`, and returns the program."""
    program, library = directory / "saved_model_reader", packages / "tensorflow"
    command = ["g++", "-w", str(SOURCE), "-o", str(program), f"-I{library / 'include'}", *_DIALECT, f"-L{library}"]
    # The registrations of ops and kernels are not referred to by name, so a linker that looks for names drops them.
    command += ["-Wl,--no-as-needed", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    command += [f"-Wl,-rpath,{library}"]
    subprocess.run(command, check=True, timeout=3600)
    return program


def translate_with_cpp(program, saved_model, texts: list[bytes], packages: pathlib.Path = PACKAGES) -> list[bytes]:
    """The answers of `serving_default` (text [N] to translation [N]) to texts, from C++."""
    libraries = sorted((packages / "tensorflow_text" / "python" / "ops").glob("_*.so"))
    command = [str(program), str(saved_model), *map(str, libraries)]
    lines = "".join(f"{text.hex()}\n" for text in texts)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise RuntimeError(f"the reader ended with {done.returncode}: {done.stderr}")
    return [bytes.fromhex(line) for line in done.stdout.splitlines()]
