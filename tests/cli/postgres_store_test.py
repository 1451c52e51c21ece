"""Tests the programs on a real PostgreSQL: postgres_store_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES

The environment's MESHWRIGHT_POSTGRES names the file that scripts/postgres_up.sh wrote. replicas_test.py tests
several servers."""

import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

from programs import MESHWRIGHT, MESHWRIGHTD, Folder, ask


class Server:
    """A server that may refuse to start; ready() waits for it."""

    def __init__(self, test, store):
        self.process = subprocess.Popen(
            [MESHWRIGHTD, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-writes", "--db", store],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reader.start()
        test.addCleanup(self.kill)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def ready(self):
        """Returns True when it is ready, or False if it has ended instead."""
        line = self.process.stdout.readline()
        if not line:
            return False
        self.address = re.fullmatch(r"listening on (\S+)\n", line).group(1)
        self.http = self.process.stdout.readline().split()[-1]
        return True


class PostgresStoreTest(Folder):
    count = 0

    def setUp(self):
        super().setUp()
        server = pathlib.Path(os.environ["MESHWRIGHT_POSTGRES"]).read_text().strip()
        PostgresStoreTest.count += 1
        schema = f"programs_{os.getpid()}_{PostgresStoreTest.count}"
        self.server = server
        self.sql(f"CREATE SCHEMA {schema}")
        self.addCleanup(self.sql, f"DROP SCHEMA {schema} CASCADE")
        self.postgres = f"{server}&options=-csearch_path%3D{schema}"

    def sql(self, text):
        subprocess.run(["psql", "--quiet", "--set", "ON_ERROR_STOP=1", self.server, "--command",
                        f"SET client_min_messages = error; {text}"], check=True, capture_output=True)

    def start(self):
        server = Server(self, self.postgres)
        self.assertTrue(server.ready(), server.log)
        return server

    def listed(self):
        return json.loads(self.run_cli("study", "list", "--page-size", "1000", "--output", "json", "--db",
                                       self.postgres).stdout)["studies"]

    def test_commands_and_a_server_share_it(self):
        self.run_cli("history", "export", "--db", self.postgres, expect=5)  # it is not there yet
        server = self.start()
        self.run_cli("tune", *self.question(), "--server", server.address)
        (study,) = self.listed()
        self.assertEqual(study["state"], "succeeded")
        # It can be written beside the server, and the server sees it.
        self.run_cli("study", "update", study["id"], "--note", "as launched", "--db", self.postgres)
        self.assertEqual(ask(server.http, f"v1/studies/{study['id']}")["study"]["note"], "as launched")
        refused = self.run_cli("tune", *self.question(), "--db", self.postgres, expect=8)
        self.assertIn("--server ADDRESS", refused.stderr)
        self.run_cli("tune", *self.question(), "--db", self.postgres, "--no-record")

    def test_a_password_is_refused_and_never_shown(self):
        address = "postgresql://me:s3cret@localhost/none"
        for run in (["study", "list"], ["tune", *self.question(), "--no-record"], ["history", "export"]):
            refused = subprocess.run([MESHWRIGHT, *run, "--db", address], capture_output=True,
                                     text=True, check=False)
            self.assertNotIn("s3cret", refused.stdout + refused.stderr, run)
            self.assertIn("passfile", refused.stderr, run)
        server = Server(self, address)
        self.assertFalse(server.ready())
        server.process.wait()
        server.reader.join()
        self.assertNotIn("s3cret", "".join(server.log))
        self.assertIn("passfile", "".join(server.log))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
