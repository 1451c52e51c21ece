"""Tests the first files and the shell's help: cli_init_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import shlex
import subprocess
import sys
import unittest

from programs import Folder


class InitTest(Folder):
    # The files of `init` are a question, and its answer is that of the same question in JSON.
    def test_init_and_yaml(self):
        made = self.folder / "my question"
        done = self.run_cli("init", str(made))
        command = shlex.split(done.stdout)
        self.assertEqual(command[:2], ["meshwright", "tune"])
        yaml = self.run_cli(*command[1:], "--no-record", "--output", "json")
        workload = self.write("w.json", "{ // as in the file\n" + json.dumps(
            {"sequence_length": 8192, "global_batch_size": 128, "precision": "bf16",
             "framework": {"name": "megatron-core"}})[1:])
        command[command.index("--workload") + 1] = workload
        plain = self.run_cli(*command[1:], "--no-record", "--output", "json")
        self.assertEqual(json.loads(plain.stdout)["plans"], json.loads(yaml.stdout)["plans"])
        before = (made / "model.yaml").read_text()
        (made / "model.yaml").write_text("mine: 1\n")
        (made / "cluster.yaml").unlink()
        done = self.run_cli("init", str(made), expect=6)
        self.assertIn("model.yaml, ", done.stderr)
        self.assertEqual((made / "model.yaml").read_text(), "mine: 1\n")
        self.assertFalse((made / "cluster.yaml").exists())
        (made / "model.yaml").write_text(before + "hidden_size: 1\n")
        done = self.run_cli("tune", "--model", str(made / "model.yaml"), "--workload", workload,
                            "--chip", "H200", "--nodes", "1", expect=3)
        self.assertRegex(done.stderr, r"model\.yaml = not YAML; line \d+: \"hidden_size\" is given twice")

    def test_completion_and_manual(self):
        script = self.run_cli("completion", "bash").stdout
        done = subprocess.run(
            ["bash", "-c", script + """
COMP_WORDS=(meshwright study sh); COMP_CWORD=2; _meshwright; echo "${COMPREPLY[*]}"
COMP_WORDS=(meshwright tune --output ""); COMP_CWORD=3; _meshwright; echo "${COMPREPLY[*]}"
COMP_WORDS=(meshwright --db x tune --mod); COMP_CWORD=4; _meshwright; echo "${COMPREPLY[*]}"
"""], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.splitlines(), ["show", "table json csv", "--model"])
        self.run_cli("man", "--folder", str(self.folder / "man1"))
        page = (self.folder / "man1" / "meshwright-study-show.1").read_text()
        self.assertEqual(page, self.run_cli("man", "study", "show").stdout)
        self.run_cli("man", "shudy", expect=5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
