#!/usr/bin/env python3
"""Adds the code of the messages to a copy of the package, with protoc and gRPC's plug-in for Python.

    generate.py PROTO_FOLDER PACKAGE_FOLDER [PROTOC [GRPC_PYTHON_PLUGIN]]

The messages of meshwright.v1 come to PACKAGE_FOLDER/v1, with types. Google's messages of error
details come to PACKAGE_FOLDER/rpc under a package name of our own: under Google's they would clash
with googleapis-common-protos, which declares the same names.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def run_protoc(protoc, root, out, files, *options):
    subprocess.run([protoc, f"--proto_path={root}", f"--python_out={out}", f"--pyi_out={out}", *options, *files],
                   check=True)


def write_init(folder, stems, root, text):
    """Writes an __init__.py that exports every message of the files."""
    lines = [f'"""{text}"""\n']
    for stem in stems:
        names = re.findall(r"^message (\w+)", (root / f"{stem}.proto").read_text(encoding="utf-8"), re.M)
        if not names:  # only options of other files
            continue
        imports = "".join(f"    {name} as {name},\n" for name in sorted(names))
        lines.append(f"from .{stem}_pb2 import (\n{imports})\n")
    (folder / "__init__.py").write_text("".join(lines), encoding="utf-8")


def typed(text):
    """Returns the text of a stub as mypy takes it. protoc leaves out the type of an empty list and of fields whose
    names are words of Python, and gives numbers of extensions the type of a class's."""
    text = text.replace("__slots__ = []", "__slots__ = ()").replace("**kwargs)", "**kwargs: object)")
    return re.sub(r"^(\w+): _ClassVar\[int\]$", r"\1: int", text, flags=re.M)


def generate(proto, package, protoc, plugin):
    source = proto / "meshwright" / "v1"
    stems = sorted(path.stem for path in source.glob("*.proto"))
    if not stems:
        sys.exit(f"generate.py: no messages in {source}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run_protoc(protoc, proto, folder, [f"meshwright/v1/{stem}.proto" for stem in stems],
                   f"--grpc_out={folder}", f"--plugin=protoc-gen-grpc={plugin}")
        renamed = folder / "renamed" / "meshwright" / "rpc"
        renamed.mkdir(parents=True)
        for stem in ("error_details", "status"):
            text = (proto / "google" / "rpc" / f"{stem}.proto").read_text(encoding="utf-8")
            (renamed / f"{stem}.proto").write_text(text.replace("package google.rpc;", "package meshwright.rpc;"),
                                                   encoding="utf-8")
        run_protoc(protoc, folder / "renamed", folder,
                   ["meshwright/rpc/error_details.proto", "meshwright/rpc/status.proto"])
        made = folder / "meshwright"
        for path in made.rglob("*.pyi"):
            path.write_text(typed(path.read_text(encoding="utf-8")), encoding="utf-8")
        for path in (made / "v1").glob("*_pb2_grpc.py"):  # a file without a service has nothing in it
            if "class " not in path.read_text(encoding="utf-8"):
                path.unlink()
        write_init(made / "v1", stems, source, "The messages of meshwright.v1 (proto/meshwright/v1).")
        write_init(made / "rpc", ["error_details", "status"], renamed, "The details of errors, as Google defines them.")
        for part in ("v1", "rpc"):
            shutil.rmtree(package / part, ignore_errors=True)
            shutil.copytree(made / part, package / part)


def main(arguments):
    if not 2 <= len(arguments) <= 4:
        sys.exit(__doc__)
    proto, package = (pathlib.Path(word).resolve() for word in arguments[:2])
    tools = arguments[2:] + ["protoc", "grpc_python_plugin"][len(arguments) - 2:]
    found = [shutil.which(tool) for tool in tools]
    if None in found:
        sys.exit(f"generate.py: there is no {tools[found.index(None)]}; Debian's packages are protobuf-compiler and "
                 "protobuf-compiler-grpc")
    package.mkdir(parents=True, exist_ok=True)
    generate(proto, package, *found)


if __name__ == "__main__":
    main(sys.argv[1:])
