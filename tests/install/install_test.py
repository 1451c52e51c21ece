"""Tests the installed product. Every program and file comes from the prefix, and none from the
build or the source.

    install_test.py CMAKE BUILD SOURCE PYTHON_WITH_TORCH
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, SOURCE, TORCH_PYTHON = sys.argv[1:5]


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()
        cls.share = cls.prefix / "share" / "meshwright"
        cls.meshwright = cls.prefix / "bin" / "meshwright"

    def run_there(self, *arguments):
        """Runs a program in another folder and returns its standard output. The test fails unless
        it exits with 0."""
        done = subprocess.run([str(argument) for argument in arguments], cwd=self.elsewhere, text=True,
                              capture_output=True, timeout=600, env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def question(self, example):
        folder = self.share / "examples" / example
        model = "config.json" if (folder / "config.json").exists() else "model.json"
        return ["--model", folder / model, "--workload", folder / "workload.json", "--cluster", folder / "cluster.json"]

    def test_everything_is_there(self):
        for path in ("bin/meshwrightd", "bin/meshwright-costmodel-host", "include/meshwright/meshwright_costmodel.h",
                     "share/meshwright/proto/meshwright/costmodel/v1/costmodel.proto",
                     "share/meshwright/chips/nvidia-a100-sxm4-80gb.json", "share/meshwright/frameworks/megatron-core.json",
                     "share/meshwright/workloads/microbench.py", "share/meshwright/templates/cpp/CMakeLists.txt",
                     "share/doc/meshwright/LICENSE", "lib/systemd/system/meshwrightd.service"):
            self.assertTrue((self.prefix / path).is_file(), path)

    def test_the_unit_starts_the_installed_server(self):
        unit = (self.prefix / "lib" / "systemd" / "system" / "meshwrightd.service").read_text()
        program = re.search(r"^ExecStart=(\S+)", unit, re.M).group(1)
        self.assertRegex(self.run_there(program, "--version"), r"^meshwrightd \d")
        self.assertNotIn("@", unit.replace("@system-service", "").replace("@mount", ""))

    def test_the_unit_reads_the_installed_configuration(self):
        unit = (self.prefix / "lib" / "systemd" / "system" / "meshwrightd.service").read_text()
        file = re.search(r"^ExecStart=.* --config (\S+)", unit, re.M).group(1)
        self.assertEqual(file, str(self.prefix / "etc" / "meshwright" / "meshwrightd.toml"))
        self.assertEqual(pathlib.Path(file).read_bytes(), (self.share / "meshwrightd.toml").read_bytes())
        self.run_there(self.prefix / "bin" / "meshwrightd", "--config", file, "--check-config")

    def test_systemd_accepts_the_unit(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        unit = self.prefix / "lib" / "systemd" / "system" / "meshwrightd.service"
        self.run_there("systemd-analyze", "verify", "--man=no", unit)
        # 0 is no exposure and 10 the most. "ok" ends at 5; the few points are the network, the user
        # namespaces of vendors' models and their mounts.
        self.run_there("systemd-analyze", "security", "--offline=yes", "--threshold=25", unit)

    def test_links_of_the_documents(self):
        documents = self.prefix / "share" / "doc" / "meshwright"
        self.assertTrue((documents / "README.md").read_text().startswith("# Meshwright"))
        self.assertTrue((documents / "docs" / "README.md").is_file())
        missing = []
        for page in documents.rglob("*.md"):
            for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
                if "://" not in link and not (page.parent / link).exists():
                    missing.append(f"{page.relative_to(documents)}: {link}")
        self.assertEqual(missing, [])

    def test_nothing_points_back(self):
        for path in self.prefix.rglob("*"):
            if not path.is_file():
                continue
            content = path.read_bytes()
            for folder in (BUILD, SOURCE):
                self.assertNotIn(folder.encode(), content, path)

    def test_tune(self):
        answer = json.loads(self.run_there(self.meshwright, "tune", *self.question("llama2-70b"), "--no-record",
                                           "--output", "json"))
        self.assertTrue(answer["plans"])

    def template(self, name):
        """Copies a template to another folder, as its README says, and returns that folder."""
        source = self.elsewhere / name
        shutil.copytree(self.share / "templates" / name, source)
        return source

    def assert_passes(self, *model):
        self.assertIn("\npassed: a study may use this model", self.run_there(self.meshwright, "model", "check", *model))

    def test_the_first_command_of_the_vendors_page(self):
        page = self.prefix / "share" / "doc" / "meshwright" / "docs" / "vendor_models" / "writing_one.md"
        command = re.search(r"```bash\n(.*?)```", page.read_text(), re.S).group(1)
        self.assertIn("prefix=/usr\n", command)
        command = "set -e\n" + command.replace("prefix=/usr\n", f"prefix={self.prefix}\n")
        self.assertIn("\npassed: a study may use this model", self.run_there("bash", "-c", command))

    def test_template_in_cpp_outside_of_the_tree(self):
        source = self.template("cpp")
        self.run_there("cmake", "-S", source, "-B", source / "build", f"-DMESHWRIGHT_PROTO={self.share / 'proto'}")
        self.run_there("cmake", "--build", source / "build")
        self.assert_passes("--program", source / "build" / "acme_cost_model")

    def test_template_in_python_outside_of_the_tree(self):
        source = self.template("python")
        self.run_there(source / "generate.sh", self.share / "proto")
        self.assert_passes("--program", source / "cost_model.py")

    def test_microbenchmark(self):
        measured = self.elsewhere / "chip.json"
        self.run_there(TORCH_PYTHON, self.share / "workloads" / "microbench.py", "--output", measured, "--processes", 2,
                       "--quick", "--only", "gemm,elementwise")
        self.assertTrue(json.loads(measured.read_text()))

    def test_local_job(self):
        job = self.elsewhere / "job.json"
        job.write_text(json.dumps({"folder": str(self.elsewhere / "jobs"), "python": TORCH_PYTHON,
                                   "environment": ["OMP_NUM_THREADS=1"], "time_limit_seconds": 300,
                                   "metrics": {"warmup_steps": 1, "min_steps": 2, "max_steps": 3}}))
        answer = json.loads(self.run_there(self.meshwright, "--db", self.elsewhere / "history.db", "tune",
                                           *self.question("two-cores"),
                                           "--launcher", "local", "--job", job, "--max-trials", 1, "--output", "json"))
        self.assertEqual([trial["outcome"] for trial in answer["trials"]], ["ok"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
