"""Tests the Python package itself: its messages against the schema that clients rely on, and its
types: package_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES PACKAGE"""

import ast
import importlib
import importlib.util
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import servers
from servers import PACKAGE, SOURCE

import meshwright
from google.protobuf import descriptor_pb2, text_format
from meshwright import v1

PROJECT = SOURCE / "clients" / "python"


def package_files():
    """Returns the descriptors that the package ships, by the name of their file."""
    found = {}
    for path in sorted((PACKAGE / "meshwright" / "v1").glob("*_pb2.py")):
        made = descriptor_pb2.FileDescriptorProto()
        importlib.import_module(f"meshwright.v1.{path.stem}").DESCRIPTOR.CopyToProto(made)
        found[made.name] = made
    return found


def baseline_files():
    text = (SOURCE / "proto" / "baseline" / "meshwright.txtpb").read_text(encoding="utf-8")
    files = text_format.Parse(text, descriptor_pb2.FileDescriptorSet()).file
    # Vendors' models have a contract of their own, and only the command line uses the placement.
    return [file for file in files if file.package == "meshwright.v1" and not file.name.endswith("placement.proto")]


def messages_of(messages, prefix=""):
    """Returns messages with those inside them, such as the entries of maps, by name."""
    found = {}
    for message in messages:
        name = prefix + message.name
        found[name] = message
        found.update(messages_of(message.nested_type, name + "."))
    return found


def all_messages(files):
    return messages_of(message for file in files for message in file.message_type)


def all_methods(files):
    return {f"{service.name}.{method.name}": method
            for file in files for service in file.service for method in service.method}


def broken(baseline, shipped):
    """Returns what a server or a client of the baseline would miss in the shipped files. Messages may
    move from one file to another."""
    missing = []
    now = all_messages(shipped)
    for name, message in all_messages(baseline).items():
        fields = {field.number: field for field in now[name].field} if name in now else {}
        for old in message.field:
            new = fields.get(old.number)
            if new is None or (new.name, new.type, new.label, new.type_name) != (
                    old.name, old.type, old.label, old.type_name):
                missing.append(f"{name}.{old.name} = {old.number}")
    methods = all_methods(shipped)
    return missing + [name for name, method in all_methods(baseline).items() if methods.get(name) != method]


class SchemaTest(unittest.TestCase):
    def test_it_keeps_the_baseline(self):
        files = baseline_files()
        self.assertIn("TuningService.WatchStudy", all_methods(files))
        self.assertEqual(broken(files, package_files().values()), [])

    def test_a_change_is_found(self):
        files, changed = baseline_files(), baseline_files()
        self.assertEqual(broken(files, changed), [])
        all_messages(changed)["RecommendRequest"].field[1].number = 3
        file = next(file for file in changed if file.service)
        gone = f"{file.service[0].name}.{file.service[0].method[0].name}"
        del file.service[0].method[0]
        self.assertEqual(broken(files, changed), ["RecommendRequest.is_unrecorded = 2", gone])

    def test_the_package_of_go(self):
        self.assertEqual({file.options.go_package for file in package_files().values()},
                         {"meshwright/v1;meshwrightv1"})

    def test_every_message_has_a_name_in_v1(self):
        for file in package_files().values():
            for message in file.message_type:
                self.assertTrue(hasattr(v1, message.name), message.name)

    def test_google_s_own_messages_can_be_loaded_beside_it(self):
        """googleapis-common-protos declares google.rpc too; a second copy under its names would fail."""
        script = ("import meshwright; from google.protobuf import descriptor_pb2, descriptor_pool\n"
                  "file = descriptor_pb2.FileDescriptorProto(name='google/rpc/status.proto', package='google.rpc')\n"
                  "file.message_type.add(name='Status').field.add(name='other', number=9, type=9, label=1)\n"
                  "descriptor_pool.Default().AddSerializedFile(file.SerializeToString())\n"
                  "descriptor_pool.Default().FindMessageTypeByName('google.rpc.Status')\n")
        subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(PACKAGE)})


class ClientsTest(unittest.TestCase):
    def test_both_clients_have_the_same_methods(self):
        def methods(kind):
            return {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}
        sync, asynchronous = methods(meshwright.Client), methods(meshwright.AsyncClient)
        self.assertEqual(sync.keys(), asynchronous.keys())
        for name in sync:
            self.assertEqual(inspect.signature(sync[name]).parameters, inspect.signature(asynchronous[name]).parameters)

    def test_every_client_option_of_init(self):
        self.assertEqual(inspect.signature(meshwright.Client).parameters,
                         inspect.signature(meshwright.AsyncClient).parameters)

    def test_each_method_that_is_repeated_exists(self):
        channel = importlib.import_module("meshwright._channel")
        services = {service.name: {method.name for method in service.method}
                    for file in package_files().values() for service in file.service}
        for service, names in channel._REPEATABLE.items():
            self.assertLessEqual(set(names), services[service])
        self.assertEqual(set(channel.STUBS), set(services))

    def test_it_is_python_3_9(self):
        for path in (PACKAGE / "meshwright").rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))

    def test_version(self):
        stated = re.search(r"project\(meshwright VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
        self.assertEqual(meshwright.__version__, stated)


def has_wheel_tools():
    return all(importlib.util.find_spec(name) for name in ("pip", "setuptools", "wheel"))


@unittest.skipUnless(has_wheel_tools(), "pip is not installed (scripts/setup.sh --test)")
class WheelTest(unittest.TestCase):
    def test_a_wheel_without_a_network(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            # Copies, because setuptools leaves files beside its sources.
            shutil.copytree(PROJECT, folder / "clients" / "python")
            shutil.copytree(SOURCE / "proto", folder / "proto")
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder,
                            folder / "clients" / "python"], check=True, capture_output=True)
            wheel, = folder.glob("*.whl")
            self.assertEqual(wheel.name, f"meshwright-{meshwright.__version__}-py3-none-any.whl")
            target = folder / "target"
            subprocess.run([*pip, "install", "--no-index", "--no-deps", "--no-compile", "--target", target, wheel],
                           check=True, capture_output=True)
            built, installed = (
                {str(path.relative_to(root)): path.read_bytes() for path in (root / "meshwright").rglob("*")
                 if path.is_file() and "__pycache__" not in path.parts} for root in (PACKAGE, target))
            self.assertEqual(installed, built)  # also what the Debian package has
            metadata, = target.glob("meshwright-*.dist-info/METADATA")
            self.assertEqual(re.findall(r"^Requires-(?:Dist|Python): (.*)$", metadata.read_text(), re.M),
                             [">=3.9", "grpcio (>=1.51)", "protobuf (>=4.21)"])
            subprocess.run([sys.executable, "-m", "meshwright", "--help"], check=True, cwd=folder,
                           env={"PYTHONPATH": str(target)}, stdout=subprocess.DEVNULL)


@unittest.skipIf(shutil.which("mypy") is None, "mypy is not installed (scripts/setup.sh --test)")
class TypesTest(unittest.TestCase):
    def check(self, *what):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(["mypy", "--config-file", str(PROJECT / "mypy.ini"), "--cache-dir", cache, *what],
                                  cwd=PACKAGE, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_the_package(self):
        code, output = self.check("-p", "meshwright")
        self.assertEqual(code, 0, output)

    def test_what_uses_it(self):
        """The types reach a user's program: through methods, messages and iterators."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text("import meshwright\n"
                               "client = meshwright.Client('host:1')\n"
                               "reveal_type(client.recommend_or(None, {}).answer)\n"
                               "reveal_type([plan.rank for plan in client.list_plans('s')])\n"
                               "client.recommend({}, deadline='soon')\n")
            code, output = self.check(str(program))
        self.assertEqual(code, 1, output)
        self.assertIn("RecommendResponse", output)
        self.assertIn("builtins.list[builtins.int]", output)
        self.assertIn('Argument "deadline" to "recommend" of "Client" has incompatible type "str"', output)

    def test_the_package_says_that_it_has_types(self):
        self.assertTrue((PACKAGE / "meshwright" / "py.typed").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
