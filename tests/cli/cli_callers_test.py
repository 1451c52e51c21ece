"""Tests who may use a server: cli_callers_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import base64
import hashlib
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "events"))
from wait_for import wait_until  # noqa: E402

from programs import MESHWRIGHT, MESHWRIGHTD, TINY_CLUSTER, TINY_MODEL, TINY_WORKLOAD, Folder  # noqa: E402


def line(name, role):
    digest = hashlib.sha256(f"token of {name}".encode()).hexdigest()
    return f"{name} {role} sha256:{digest}\n"


class CallersTest(Folder):
    def setUp(self):
        super().setUp()
        self.callers = self.write("callers", line("reader", "viewer") + line("ci", "submitter") +
                                  "robot operator cert:robot\n")

    def token(self, name):
        return ["--token-file", self.write(f"{name}.token", f"token of {name}\n")]

    def start(self, *flags):
        """Starts a server that knows its callers; returns the addresses that it prints."""
        server = subprocess.Popen(
            [MESHWRIGHTD, "--db", str(self.folder / "server.db"), "--callers", self.callers, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.server = server

        def stop():
            server.terminate()
            server.communicate(timeout=30)
        self.addCleanup(stop)
        addresses = [re.fullmatch(r"listening on (\S+)\n", server.stdout.readline()).group(1)]
        if "--http" in flags:
            addresses.append(server.stdout.readline().split()[-1])
        return addresses

    def reload(self, text, event):
        """Gives the server another file, and waits until it has read it."""
        self.write("callers", text)
        self.server.send_signal(signal.SIGHUP)
        self.wait_for_line(event)

    def wait_for_line(self, event):
        for logged in self.server.stderr:
            if event in logged:
                return logged
        return self.fail("the server ended")

    def cli_code(self, *args):
        return subprocess.run([MESHWRIGHT, *args], capture_output=True, timeout=60, check=False).returncode

    def test_roles_over_grpc(self):
        server = ["--server", self.start("--listen", "127.0.0.1:0")[0]]
        errors = self.run_cli("study", "list", *server, expect=8).stderr
        self.assertIn("answers only callers that it knows", errors)
        self.run_cli("study", "list", *server, *self.token("stranger"), expect=8)
        self.run_cli("study", "list", *server, *self.token("reader"))
        errors = self.run_cli("tune", *self.question(), *server, *self.token("reader"), expect=8).stderr
        self.assertIn("reader has the role viewer; CreateStudy needs submitter", errors)
        self.run_cli("tune", *self.question(), *server, *self.token("ci"))
        errors = self.run_cli("history", "backup", *server, *self.token("ci"), expect=8).stderr
        self.assertIn("needs admin", errors)
        self.run_cli("study", "list", *server, "--token-file", "absent", expect=3)
        # A caller can be shut out; a file with a mistake changes nothing.
        self.reload("nonsense\n", "event=reload_failed")
        self.run_cli("study", "list", *server, *self.token("reader"))
        self.reload(line("ci", "viewer"), "event=callers_reloaded")
        self.run_cli("study", "list", *server, *self.token("reader"), expect=8)
        self.run_cli("tune", *self.question(), *server, *self.token("ci"), expect=8)

    def test_the_server_s_own_user_over_a_unix_socket(self):
        address = f"unix:{self.folder}/socket"
        self.start("--listen", address)
        self.run_cli("history", "backup", "--server", address)

    def test_the_dashboard(self):
        base = self.start("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-writes")[1]

        def code(path, token=None, **request):
            login = base64.b64encode(f"any:token of {token}".encode()).decode()
            headers = {"Authorization": f"Basic {login}"} if token else {}
            try:
                with urllib.request.urlopen(urllib.request.Request(
                        base + path, headers={**headers, "Content-Type": "application/json"},
                        **request), timeout=30) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                if error.code == 401:
                    self.assertIn("Basic realm", error.headers["WWW-Authenticate"])
                return error.code
        for path in ("", "v1/studies", "v1/studies/no-study", "v1/serverInfo"):
            self.assertEqual(code(path), 401, path)
            self.assertEqual(code(path, "stranger"), 401, path)
        self.assertEqual(code("v1/studies", "reader"), 200)
        question = {"question": {"hugging_face_config_json": "{}"}}
        body = json.dumps(question).encode()
        self.assertEqual(code("v1/studies", None, data=body), 401)
        self.assertEqual(code("v1/studies", "reader", data=body), 403)
        self.assertEqual(code("v1/studies", "ci", data=body), 400)  # the question is no question
        jobs = json.dumps({"question": {"trials": {"launcher": "local"}}}).encode()
        self.assertEqual(code("v1/studies", "ci", data=jobs), 403)

    def test_a_study_has_its_creator(self):
        self.write("callers", line("ci", "submitter") + line("other", "submitter") + line("boss", "admin"))
        address, base = self.start("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-writes",
                                   "--caller-studies", "7")
        question = {"model": TINY_MODEL, "workload": TINY_WORKLOAD, "cluster": TINY_CLUSTER}
        asked = json.dumps({"study_id": "over-http", "question": question}).encode()
        login = {"Authorization": "Bearer token of ci", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(base + "v1/studies", asked, login), timeout=60) as answer:
            self.assertEqual(json.load(answer)["study"]["creator"], "ci")
        self.run_cli("tune", *self.question(), "--server", address, *self.token("other"))
        server = ["--server", address, *self.token("boss"), "--output", "json"]

        def ids(creator):
            listed = json.loads(self.run_cli("study", "list", "--creator", creator, *server).stdout)
            return [study["id"] for study in listed.get("studies", [])]
        self.assertEqual(ids("ci"), ["over-http"])
        self.assertEqual(len(ids("other")), 1)
        self.assertEqual(ids("boss"), [])
        # All studies have ended, and none had jobs.
        self.assertTrue(wait_until(lambda: not any(
            caller["open_study_count"] for caller in json.loads(self.run_cli("server", "callers", *server).stdout)
            ["callers"])))
        table = self.run_cli("server", "callers", *server[:-2]).stdout
        self.assertIn("device hours", table)
        limits = json.loads(self.run_cli("server", "info", *server).stdout)["limits"]
        self.assertEqual([limit["value"] for limit in limits if limit["name"] == "caller_study_count"], [7])

    def test_tls(self):
        authority = str(self.folder / "authority")
        self.certificate("authority")
        key, certificate = self.certificate("server", authority)
        robot_key, robot = self.certificate("robot", authority, has_address=False)
        # With TLS and known callers, other hosts may be served.
        address = self.start("--listen", "0.0.0.0:0", "--tls-cert", certificate, "--tls-key", key,
                             "--tls-client-ca", f"{authority}.pem")[0]
        server = ["--server", "127.0.0.1:" + address.split(":")[-1]]
        trusted = [*server, "--tls-ca", f"{authority}.pem"]
        self.run_cli("study", "list", *server, *self.token("reader"), expect=8)  # in clear
        self.run_cli("study", "list", *trusted, expect=8)
        self.run_cli("study", "list", *trusted, *self.token("reader"))
        self.run_cli("tune", *self.question(), *trusted, "--tls-cert", robot, "--tls-key", robot_key)
        self.certificate("stranger")
        self.run_cli("study", "list", *server, "--tls-ca", str(self.folder / "stranger.pem"),
                     *self.token("reader"), expect=8)

    def test_a_certificate_is_renewed_while_the_server_runs(self):
        files = {}
        for name in ("first", "second"):
            authority = str(self.folder / f"authority-of-{name}")
            self.certificate(f"authority-of-{name}")
            files[name] = *self.certificate(name, authority), f"{authority}.pem"

        def install(name):
            for file, target in zip(files[name], ("server.key", "server.pem")):
                shutil.copy(file, self.folder / target)
        install("first")
        address = self.start("--listen", "127.0.0.1:0", "--tls-cert", str(self.folder / "server.pem"),
                             "--tls-key", str(self.folder / "server.key"))[0]
        call = ["study", "list", "--server", address, *self.token("reader"), "--tls-ca"]
        self.run_cli(*call, files["first"][2])
        self.run_cli(*call, files["second"][2], expect=8)
        install("second")
        self.server.send_signal(signal.SIGHUP)
        self.wait_for_line("event=certificates_checked")
        self.assertTrue(wait_until(lambda: self.cli_code(*call, files["second"][2]) == 0))
        self.run_cli(*call, files["first"][2], expect=8)
        # Files that cannot be used are named.
        self.write("server.pem", "nothing")
        self.server.send_signal(signal.SIGHUP)
        self.assertIn("tls-cert", self.wait_for_line("event=reload_failed"))

    def test_the_log_names_caller_call_and_study(self):
        server = ["--server", self.start("--listen", "127.0.0.1:0", "--log-level", "debug")[0]]
        self.run_cli("study", "create", *self.question(), "--request-id", "launch-17", *server, *self.token("ci"))
        self.assertRegex(self.wait_for_line("method=CreateStudy"),
                         r" code=OK ms=[0-9.]+ caller=ci role=submitter request_id=launch-17 study=study-\w+$")
        # An id that could be taken for more of the line is left out.
        self.run_cli("study", "create", *self.question(), "--request-id", "a b=c", *server, *self.token("ci"))
        self.assertRegex(self.wait_for_line("method=CreateStudy"), r" role=submitter study=study-\w+$")

    def test_job_templates_are_read_again(self):
        folder = self.folder / "templates"
        folder.mkdir(mode=0o700)
        (folder / "train.json").write_text('{"folder": "/shared/jobs"}')
        address = self.start("--listen", "127.0.0.1:0", "--job-templates", str(folder))[0]

        def names():
            info = self.run_cli("server", "info", "--server", address, *self.token("reader"), "--output", "json")
            return json.loads(info.stdout).get("job_templates", [])
        self.assertEqual(names(), ["train"])
        (folder / "tune.json").write_text('{"folder": "/shared/jobs"}')
        self.assertEqual(names(), ["train"])
        self.server.send_signal(signal.SIGHUP)
        self.wait_for_line("event=job_templates_reloaded")
        self.assertEqual(names(), ["train", "tune"])
        # A mistake in one file leaves all as they were.
        (folder / "train.json").write_text('{"comand": []}')
        (folder / "tune.json").unlink()
        self.server.send_signal(signal.SIGHUP)
        self.assertIn("comand", self.wait_for_line("event=reload_failed"))
        self.assertEqual(names(), ["train", "tune"])

    def refused(self, *flags):
        done = subprocess.run([MESHWRIGHTD, "--db", str(self.folder / "x.db"), *flags],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        return done.stderr

    def test_what_is_refused_at_the_start(self):
        local = ["--listen", "127.0.0.1:0"]
        self.assertIn("--callers", self.refused("--listen", "0.0.0.0:0"))
        self.assertIn("--callers", self.refused("--listen", "0.0.0.0:0", "--callers", self.callers))
        self.assertIn("everybody who can connect could run commands",
                      self.refused(*local, "--allow-jobs"))
        bad = self.write("bad", "ci boss sha256:" + 64 * "0" + "\nci viewer my-token\n")
        errors = self.refused(*local, "--callers", bad)
        self.assertIn("callers line 1", errors)
        self.assertIn("callers line 2", errors)
        self.assertNotIn("my-token", errors)
        self.assertIn("cannot be read", self.refused(*local, "--tls-cert", "absent", "--tls-key", "absent"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
