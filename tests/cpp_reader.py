"""The Python-free reader of SavedModels: built against the libraries inside the tensorflow wheel, and run."""

import pathlib
import shutil
import subprocess

import tensorflow as tf
import tensorflow_text

SOURCE = pathlib.Path(__file__).with_name("saved_model_reader.cc")


def has_compiler() -> bool:
    """Whether there is a C++ compiler on this machine."""
    return shutil.which("g++") is not None


def build_reader(directory: pathlib.Path) -> pathlib.Path:
    """Compiles the reader into `directory` and returns the program."""
    program = directory / "saved_model_reader"
    library = tf.sysconfig.get_lib()
    command = ["g++", "-w", str(SOURCE), "-o", str(program), *tf.sysconfig.get_compile_flags(), f"-L{library}"]
    # The registrations of ops and kernels are not referred to by name, so a linker that looks for names drops them.
    command += [
        "-Wl,--no-as-needed",
        "-l:libtensorflow_cc.so.2",
        "-l:libtensorflow_framework.so.2",
        f"-Wl,-rpath,{library}",
    ]
    subprocess.run(command, check=True, timeout=600)
    return program


def translate_with_cpp(program: pathlib.Path, saved_model, texts: list[bytes]) -> list[bytes]:
    """The answers of `serving_default` (text [N] to translation [N]) to texts, from C++."""
    ops = pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops"
    command = [str(program), str(saved_model), *map(str, sorted(ops.glob("_*.so")))]
    lines = "".join(f"{text.hex()}\n" for text in texts)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"the reader ended with {done.returncode}: {done.stderr}")
    return [bytes.fromhex(line) for line in done.stdout.splitlines()]
