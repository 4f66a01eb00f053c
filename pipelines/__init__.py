"""The commands: one thin script per verb, and the command line that collects them.

Installed, this package is `tf_transformer.pipelines`. In a bare checkout (`python -m pipelines.train`) nothing
has made that mapping, so the package makes it for the whole checkout when it is imported under its short name.
"""

if __name__ == "pipelines":
    import pathlib

    import tf_transformer

    tf_transformer.__path__.append(str(pathlib.Path(__file__).resolve().parent.parent))
