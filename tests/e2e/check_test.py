"""`phalanx check` against a running service, and against what is broken."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from service import MODEL, PROGRAMS, Service, Surroundings, long_request


def check(*flags, surroundings=None, timeout=120):
    """(exit code, stdout) of one `phalanx check`."""
    done = subprocess.run(
        [PROGRAMS + "/phalanx", "check", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout,
        env=surroundings.environment() if surroundings else None,
    )
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


def results(out):
    """[("health", "ok"), ...] of the lines."""
    return [tuple(line.split()[:2]) for line in out.splitlines()]


WELL = [("health", "ok"), ("generation", "ok"), ("cancel", "ok")]


class CheckTest(unittest.TestCase):
    def test_a_service_that_runs_is_well(self):
        with Service() as service:
            code, out = check("--address", service.ready["address"],
                              "--admin-address", service.ready["admin"])

            self.assertEqual((code, results(out)), (0, WELL), out)
            self.assertIn("phalanx-mini: 8 tokens", out)
            self.assertRegex(out, r"CANCELLED/CLIENT after \d+ tokens?, in \d+ ms; "
                                  r"requests running: 0, 1, 0\n")
            for line in out.splitlines():
                self.assertRegex(line, r"^\w+ +ok +\d+\.\d{3} s  ")

    def test_the_last_serve_is_found_and_left_idle(self):
        with Service() as service:
            code, out = check("--json", surroundings=service.surroundings)

            self.assertEqual(code, 0, out)
            report = json.loads(out)
            self.assertTrue(report["ok"])
            self.assertEqual(
                [(c["check"], c["result"]) for c in report["checks"]], WELL)
            self.assertIn("requests running: 0, 1, 0", report["checks"][2]["detail"])
            self.assertEqual(service.status().requests_running, 0)

    def test_the_operators_port_is_known_of_the_last_serve(self):
        with Service() as service:
            _, known = check("--address", service.ready["address"],
                             surroundings=service.surroundings)
            _, unknown = check("--address", service.ready["address"])

            self.assertIn("requests running: 0, 1, 0", known)
            self.assertIn("requests running: not seen", unknown)

    def test_requests_of_others_go_on(self):
        with Service() as service:
            stream = service.inference.Generate(long_request(), timeout=120)
            next(stream)

            code, out = check(surroundings=service.surroundings)

            self.assertEqual((code, results(out)), (0, WELL), out)
            self.assertRegex(out, r"requests running: [01], [12], [01]\n")
            next(stream)  # Not cancelled.
            stream.cancel()

    def test_a_server_that_is_not_there_is_named(self):
        surroundings = Surroundings()
        try:
            code, out = check("--address", "127.0.0.1:1")
            without, why = check(surroundings=surroundings)
        finally:
            surroundings.close()

        self.assertEqual(code, 1)
        self.assertIn("no service answers at 127.0.0.1:1", out)
        self.assertEqual([word for _, word in results(out)], ["failed", "skipped", "skipped"])
        self.assertEqual(without, 1)
        self.assertIn("no `phalanx serve` of this user is running", why)

    def test_a_worker_that_was_killed_is_noticed_until_it_is_back(self):
        with Service() as service:
            epoch = service.wait_serving()
            # A parent that is stopped restarts nobody.
            service.kill("serve", signal.SIGSTOP)
            try:
                service.kill("rank 0")
                lost, out = check("--timeout", "2", surroundings=service.surroundings)
            finally:
                service.kill("serve", signal.SIGCONT)
            service.wait_serving(above_epoch=epoch)
            back, after = check(surroundings=service.surroundings)

            self.assertEqual(lost, 1, out)
            self.assertRegex(out, r"NOT_SERVING|UNAVAILABLE/NO_READY_GROUP")
            self.assertEqual((back, results(after)), (0, WELL), after)

    def test_a_worker_that_hangs_is_noticed_within_the_timeout(self):
        with Service() as service:
            service.kill("rank 0", signal.SIGSTOP)
            try:
                code, out = check("--timeout", "1", surroundings=service.surroundings,
                                  timeout=30)
            finally:
                service.kill("rank 0", signal.SIGCONT)

            self.assertEqual(code, 1, out)
            self.assertIn("failed", out)

    def test_a_wrong_file_in_the_model_folder_is_named_beside_a_good_service(self):
        with Service() as service, tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(MODEL, model)
            with open(model + "/model.safetensors", "r+b") as file:
                file.seek(1_000_000)
                byte = file.read(1)[0]
                file.seek(1_000_000)
                file.write(bytes([byte ^ 1]))
            os.remove(model + "/chat_template.jinja")
            shutil.copy(model + "/config.json", model + "/config.json.orig")

            code, out = check("--address", service.ready["address"], "--model", model)

            self.assertEqual(code, 1)
            self.assertEqual(results(out)[:4], WELL + [("files", "failed")])
            self.assertEqual(
                re.findall(r"^  (\w+) +(\S+)$", out, re.M),
                [
                    ("differs", "model.safetensors"),
                    ("missing", "chat_template.jinja"),
                    ("extra", "config.json.orig"),
                ],
            )


if __name__ == "__main__":
    unittest.main(verbosity=2)
