"""Tests the configuration file of meshwrightd: server_config_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from programs import MESHWRIGHTD, Folder

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# Files with one mistake each, and what is said of it behind the name of the file.
MISTAKES = {
    'litsen = "127.0.0.1:0"': "litsen: no such key; did you mean listen?",
    'config = "other.toml"': "config: no such key",
    '[server]\nlisten = "127.0.0.1:0"': "server.listen: no such key",
    'log-level = "loud"': "log-level = loud; not in {debug,info,warn,error}",
    "keep-estimates-days = 0": "keep-estimates-days = 0; not in range 1 to 36500",
    'keep-estimates-days = "month"': "keep-estimates-days = month; ",
    "http-writes = maybe": "http-writes = maybe; must be true or false",
    'chips = ""': "chips: no value; leave the key out",
    "chips": "line 1: must be KEY = VALUE",
    "\n=1": "line 2: must be KEY = VALUE",
    "d": "line 1: must be KEY = VALUE",
    'db = "a"\ndb = "b"': "db: more than one value; must have one",
    'db = "a"\nlog-level = "info"\ndb = "b"': "db: more than one value; must have one",
    'db = ["a", "b"]': "db: more than one value; must have one",
    'db = "a#b"': 'db = "a; must be one text in quotes, without #',
}


class ServerConfigTest(Folder):
    def run_server(self, *flags, expect):
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        done = subprocess.run([MESHWRIGHTD, *flags], capture_output=True, text=True, timeout=60, env=environment,
                              check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def said_of(self, text, *flags, expect=3):
        """Returns the lines that the server prints about a file, without the name of the file."""
        file = self.write("server.toml", text)
        lines = self.run_server("--config", file, *flags, expect=expect).stderr.splitlines()
        return [line.removeprefix("meshwrightd: ").removeprefix(f"{file}: ") for line in lines]

    def test_each_mistake_is_named(self):
        for text, said in MISTAKES.items():
            with self.subTest(text):
                lines = self.said_of(text)
                self.assertTrue(any(line.startswith(said) for line in lines), lines)
                self.assertEqual(lines, self.said_of(text, "--check-config"))

    def test_all_mistakes_at_once(self):
        lines = self.said_of('litsen = "x"\nlog-level = "loud"\nhttp-writes = true\ntls-key = "k"\n')
        self.assertEqual(lines, [
            "litsen: no such key; did you mean listen?",
            "log-level = loud; not in {debug,info,warn,error}",
            "tls-key needs tls-cert",
            "http-writes needs http"])

    def test_an_absent_file(self):
        self.assertIn("absent.toml", self.run_server("--config", "absent.toml", expect=5).stderr)

    def test_what_the_keys_name_is_read(self):
        self.write("callers", "ci boss sha256:" + 64 * "0" + "\n")
        self.write("not.pem", "no certificate\n")
        folder = self.folder
        lines = self.said_of(
            f'listen = "0.0.0.0:0"\nhttp = "192.0.2.1:80"\ncallers = "{folder}/callers"\n'
            f'chips = "{folder}/chips"\ncost-models = "{folder}/models"\ndb = "{folder}/callers"\n',
            "--check-config")
        for what in ("listen = '0.0.0.0:0'", "http = '192.0.2.1:80'", "callers line 1", "chips", "models",
                     "callers' is not a Meshwright store"):
            self.assertEqual(sum(what in line for line in lines), 1, (what, lines))
        self.assertEqual(len(lines), 6, lines)
        errors = "\n".join(self.said_of(
            f'tls-cert = "{folder}/not.pem"\ntls-key = "{folder}/not.pem"\n', "--check-config"))
        self.assertIn("tls-cert = cannot be used", errors)

    def test_a_valid_file_is_checked_without_a_trace(self):
        store = self.folder / "new" / "history.db"
        file = self.write("server.toml", f'db = "{store}"\nlisten = "unix:{self.folder}/socket"\n')
        self.assertEqual(self.run_server("--config", file, "--check-config", expect=0).stdout,
                         "the configuration is valid\n")
        self.assertFalse(store.parent.exists())
        self.assertFalse((self.folder / "socket").exists())

    def test_the_command_line_wins_over_the_file(self):
        file = self.write("server.toml", f"""
            # A comment, and a key of each kind.
            listen = "unix:{self.folder}/of-the-file"
            db = '{self.folder}/history.db'   # another comment
            log-level = "error"
            http = "127.0.0.1:0"
            http-writes = false
            keep-estimates-days = 7
            """)
        for flags, address in ([], "of-the-file"), (["--listen", f"unix:{self.folder}/of-the-flag"], "of-the-flag"):
            server = subprocess.Popen([MESHWRIGHTD, "--config", file, *flags], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            lines = [server.stdout.readline(), server.stdout.readline()]
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
            self.assertEqual(server.returncode, 0)
            self.assertEqual(lines[0], f"listening on unix:{self.folder}/{address}\n")
            self.assertRegex(lines[1], r"^dashboard at http://127\.0\.0\.1:\d+/$")
        self.assertTrue((self.folder / "history.db").exists())

    def test_the_example_has_every_key_and_is_valid(self):
        printed = self.run_server("--print-config", expect=0).stdout
        self.assertEqual(printed, (SOURCE / "packaging" / "meshwrightd.toml").read_text(),
                         "run meshwrightd --print-config >packaging/meshwrightd.toml")
        keys = re.findall(r"^# ([a-z-]+) = ", printed, re.M)
        flags = re.findall(r"^ +--([a-z-]+)", self.run_server("--help", expect=0).stdout, re.M)
        self.assertEqual(sorted(keys), sorted(
            set(flags) - {"help", "version", "config", "check-config", "print-config"}))
        file = self.write("example.toml", printed)
        self.run_server("--config", file, "--check-config", expect=0)
        # Each line of a key is one that the file can have.
        lines = self.said_of(re.sub(r"^# ([a-z-]+ = )", r"\1", printed, flags=re.M) + 'litsen = "x"\n')
        self.assertEqual(lines, ["litsen: no such key; did you mean listen?"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
