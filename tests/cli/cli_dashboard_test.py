"""Tests what the dashboard reads, as browsers ask: cli_dashboard_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import json
import os
import re
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from programs import BIG_MODEL, MESHWRIGHT, MESHWRIGHTD, Folder


def without_store(answer):
    """Leaves out the facts about the store's files, which change and belong to no study."""
    return {key: value for key, value in answer.items() if key not in ("store_bytes", "store_free_bytes")}


class DashboardTest(Folder):
    def start(self, *command):
        """Starts a program, and returns the address that it prints last."""
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        program = subprocess.Popen([str(word) for word in command], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def stop():
            program.terminate()
            self.assertEqual(program.wait(timeout=30), 0)
            program.stdout.close()
        self.addCleanup(stop)
        for line in program.stdout:
            if match := re.fullmatch(r"dashboard at (http://127\.0\.0\.1:\d+/)\n", line):
                return match.group(1)
        self.fail("the program ended without an address")

    def read(self, base, path):
        with urllib.request.urlopen(base + path, timeout=30) as answer:
            return json.loads(answer.read())

    def code(self, base, path, **fields):
        try:
            request = urllib.request.Request(base + path, headers=fields.get("headers", {}),
                                             method=fields.get("method", "GET"))
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def json_of(self, *args):
        answer = json.loads(self.run_cli(*args, "--output", "json").stdout)
        for name in ("format_version", "exit_reason", "study_id"):  # the head of the program's answers
            answer.pop(name, None)
        return answer

    def same_as_the_command_line(self, base, *flags):
        studies = self.json_of("study", "list", *flags)
        self.assertEqual(self.read(base, "v1/studies"), studies)
        self.assertEqual(len(studies["studies"]), 2)
        for study in studies["studies"]:
            name = study["id"]
            self.assertEqual(self.read(base, f"v1/studies/{name}"),
                             self.json_of("study", "show", name, *flags))
            self.assertEqual(self.read(base, f"v1/studies/{name}/plans"),
                             self.json_of("study", "plans", name, *flags))
            with urllib.request.urlopen(f"{base}v1/studies/{name}:watch", timeout=30) as answer:
                events = answer.read().decode()  # ends, because the study has ended
            self.assertIn(f"id: {study['revision']}\n", events)
            self.assertTrue(events.endswith("event: end\ndata: {}\n\n"), events)
        self.assertEqual(self.read(base, "v1/chips"), self.json_of("chip", "list", *flags))
        # Only over HTTP is it of interest whether HTTP takes changes.
        info = self.read(base, "v1/server")
        self.assertIs(info.pop("allows_http_writes"), False)
        self.assertGreater(info["store_bytes"], 0)
        self.assertGreater(info["store_free_bytes"], 0)
        self.assertEqual(without_store(info), without_store(self.json_of("server", "info", *flags)))
        self.assertEqual(len(self.read(base, "v1/studies?filter.text=TINY")["studies"]), 1)

    def test_a_local_history_is_shown_while_others_write_it(self):
        base = self.start(MESHWRIGHT, "dashboard", "--http", "127.0.0.1:0")
        self.assertEqual(self.read(base, "v1/studies"), {"studies": [], "next_page_token": ""})
        self.run_cli("tune", *self.question())
        self.run_cli("tune", *self.question(model=BIG_MODEL), expect=4)
        self.same_as_the_command_line(base)

    def test_a_report_holds_the_answers_of_one_study(self):
        self.run_cli("tune", *self.question())
        base = self.start(MESHWRIGHT, "dashboard", "--http", "127.0.0.1:0")
        if self.code(base, "") == 404:
            self.skipTest("built without Node")
        name = self.json_of("study", "list")["studies"][0]["id"]
        page = self.folder / "study.html"
        written = self.run_cli("report", name, "--html", page)
        self.assertIn("study.html has the study", written.stderr)
        text = page.read_text(encoding="utf-8")
        self.assertIn('http-equiv="Content-Security-Policy" content="default-src \'none\';', text)
        self.assertFalse("@@answers@@" in text or "@@index.js@@" in text)
        held = json.loads(re.search(r'id="answers">(.*?)</script>', text, re.DOTALL).group(1))
        self.assertEqual(held[f"v1/studies/{name}"]["study"]["id"], name)
        for address, answer in held.items():
            if not address.endswith(":watch"):
                self.assertEqual(without_store(self.read(base, address)), answer, address)
        revisions = [event["revision"] for event in held[f"v1/studies/{name}:watch"]]
        self.assertEqual(revisions, list(range(1, held[f"v1/studies/{name}"]["study"]["revision"] + 1)))
        self.run_cli("report", name, "--html", page, expect=6)
        self.run_cli("report", name, "--html", page, "--replace")
        self.assertEqual(self.run_cli("report", name, "--html", "-").stdout, text)
        self.run_cli("report", "none", "--html", page, expect=5)
        self.run_cli("report", name, "--html", page, "--server", "127.0.0.1:1", expect=2)

    def test_a_server_shows_what_it_answers_over_grpc(self):
        socket = f"unix:{self.folder}/socket"
        base = self.start(MESHWRIGHTD, "--listen", socket, "--db", self.folder / "server.db",
                          "--http", "127.0.0.1:0")
        self.run_cli("tune", *self.question(), "--server", socket)
        self.run_cli("tune", *self.question(model=BIG_MODEL), "--server", socket, expect=4)
        self.same_as_the_command_line(base, "--server", socket)

    def test_nothing_is_changed_and_nobody_else_reads(self):
        base = self.start(MESHWRIGHT, "dashboard", "--http", "127.0.0.1:0")
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            self.assertEqual(self.code(base, "v1/studies", method=method), 405)
        self.assertEqual(self.code(base, "v1/studies", headers={"Host": "evil.example"}), 403)
        self.assertEqual(self.code(base, "", headers={"Host": "evil.example"}), 403)
        self.assertEqual(self.code(base, "v1/studies", headers={"Origin": "http://evil.example"}), 403)
        self.assertEqual(self.code(base, "v1/nothing"), 404)
        self.assertEqual(self.code(base, "v1/studies/none"), 404)

    def test_stdout_has_the_address_and_stderr_the_log(self):
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        program = subprocess.Popen([MESHWRIGHT, "dashboard", "--http", "127.0.0.1:0"], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.kill)
        first = program.stdout.readline()
        base = re.fullmatch(r"dashboard at (http://127\.0\.0\.1:\d+/)\n", first).group(1)
        self.assertEqual(self.code(base, "v1/studies/none"), 404)
        self.assertEqual(self.code(base, "v1/studies", headers={"Host": "evil.example"}), 403)
        program.terminate()
        rest, notes = program.communicate(timeout=30)
        self.assertEqual((program.returncode, rest), (0, ""))
        self.assertRegex(notes, r"^time=\S+Z level=info event=call method=GetStudy protocol=http code=NOT_FOUND ")

    def test_mistakes_of_the_command_line(self):
        refused = self.run_cli("dashboard", "--http", "0.0.0.0:8080", expect=3)
        self.assertIn("0.0.0.0:8080", refused.stderr)
        self.run_cli("dashboard", "--server", "127.0.0.1:1", expect=2)
        base = self.start(MESHWRIGHT, "dashboard", "--http", "127.0.0.1:0")
        taken = re.search(r"127\.0\.0\.1:\d+", base).group(0)
        self.assertIn("cannot listen", self.run_cli("dashboard", "--http", taken, expect=8).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
