"""Makes the code of the messages while a wheel is built. Everything else stands in pyproject.toml."""

import pathlib
import sys

import setuptools
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import generate  # noqa: E402


class BuildWithMessages(build_py):
    """Generated code comes into the folder of the build only, never into the source."""

    def run(self):
        super().run()
        generate.main([str(HERE.parents[1] / "proto"), str(pathlib.Path(self.build_lib) / "meshwright")])


# The packages of generated code do not exist before, so that setuptools must not look for them.
setuptools.setup(packages=["meshwright"], cmdclass={"build_py": BuildWithMessages})
