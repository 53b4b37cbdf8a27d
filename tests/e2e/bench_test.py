"""`phalanx bench serve` against a real service, as a person or a script runs it."""

import json
import os
import pty
import signal
import subprocess
import unittest

from service import PROGRAMS, Service, until

SECONDS = 60


def command(service, *words):
    address = ["--address", service.ready["address"]]
    return [PROGRAMS + "/phalanx", "bench", "serve", *address, *words]


def bench(service, *words):
    return subprocess.run(command(service, *words), capture_output=True, text=True, timeout=SECONDS)


def report(service, *words):
    done = bench(service, "--json", *words)
    assert done.stderr == "" and done.stdout.count("\n") == 1, done
    return done.returncode, json.loads(done.stdout)


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service())

    def test_a_closed_loop_measures_everything(self):
        words = ["--requests", "12", "--concurrency", "4", "--warmup", "2"]
        code, seen = report(self.service, *words, "--prompt-tokens", "9", "--output-tokens", "20")

        self.assertEqual(code, 0)
        self.assertEqual(seen["model"], "phalanx-mini")
        self.assertEqual(seen["requests"], {"ok": 12, "failed": 0, "cancelled": 0, "interrupted": 0})
        self.assertEqual(seen["tokens"]["prompt"], 12 * 9)
        self.assertEqual(seen["tokens"]["output"], 12 * 20)
        self.assertEqual(seen["inter_token_ms"]["count"], 12 * 19)
        for name in ("ttft_ms", "time_per_output_token_ms", "end_to_end_ms"):
            self.assertEqual(seen[name]["count"], 12)
            self.assertGreater(seen[name]["p50"], 0)
            self.assertLessEqual(seen[name]["p50"], seen[name]["p99"])
        self.assertLessEqual(seen["ttft_ms"]["max"], seen["end_to_end_ms"]["max"])
        self.assertGreater(seen["output_tokens_per_second"], 0)

    def test_an_open_loop_meets_an_slo_that_is_wide(self):
        words = ["--rate", "50", "--requests", "20", "--output-tokens", "5"]
        code, seen = report(self.service, *words, "--slo-ttft-ms", "60000")

        self.assertEqual(code, 0)
        self.assertEqual(seen["load"]["loop"], "open")
        self.assertEqual(seen["goodput"]["share"], 1)

    def test_lengths_are_those_of_the_seed(self):
        words = ["--requests", "8"]
        _, one = report(self.service, *words, "--seed", "3")
        _, two = report(self.service, *words, "--seed", "3", "--concurrency", "2")
        _, other = report(self.service, *words, "--seed", "4")

        self.assertEqual(one["tokens"]["output"], two["tokens"]["output"])
        self.assertEqual(one["tokens"]["prompt"], two["tokens"]["prompt"])
        self.assertNotEqual(one["tokens"]["prompt"], other["tokens"]["prompt"])

    def test_words_are_prompts_too(self):
        code, seen = report(
            self.service, "--text", "--requests", "2", "--prompt-tokens", "10", "--output-tokens", "3"
        )

        self.assertEqual(code, 0)
        self.assertGreaterEqual(seen["tokens"]["prompt"], 20)

    def test_the_table_is_for_a_person_and_80_columns_wide(self):
        done = bench(self.service, "--requests", "2", "--output-tokens", "4")

        self.assertEqual(done.returncode, 0)
        self.assertIn("requests  2 ok, 0 failed", done.stdout)
        self.assertIn("time to first token", done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_cancels_are_no_failures(self):
        words = ["--requests", "10", "--output-tokens", "2000", "--cancel", "1"]
        code, seen = report(self.service, *words)

        self.assertEqual(code, 0)
        self.assertEqual(seen["requests"]["failed"], 0)
        self.assertGreater(seen["requests"]["cancelled"], 5)

    def test_a_refused_request_is_told_and_is_exit_code_1(self):
        # More words than ids: the context of 8192 is too short for them.
        words = ["--text", "--prompt-tokens", "8000", "--output-tokens", "100"]
        done = bench(self.service, *words, "--requests", "1")

        self.assertEqual(done.returncode, 1)
        self.assertIn("error     1 x INVALID_ARGUMENT/PROMPT_TOO_LONG: ", done.stdout)

    def test_lengths_that_never_fit_are_refused_beforehand(self):
        done = bench(self.service, "--output-tokens", "100000")

        self.assertEqual(done.returncode, 1)
        self.assertIn("max_model_len, 8192", done.stderr)

    def test_ctrl_c_reports_what_was_measured(self):
        words = ["--json", "--requests", "1000000", "--concurrency", "4", "--output-tokens", "8"]
        client = subprocess.Popen(
            command(self.service, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running = lambda: self.service.status().requests_running > 0  # noqa: E731
        until(running, SECONDS, "requests run")
        client.send_signal(signal.SIGINT)
        out, err = client.communicate(timeout=SECONDS)
        seen = json.loads(out)

        self.assertEqual((client.returncode, err), (130, ""))
        self.assertTrue(seen["interrupted"])
        self.assertEqual(seen["requests"]["failed"], 0)
        until(lambda: not running(), SECONDS, "nothing of it runs any more")

    def test_a_terminal_sees_how_far_it_is(self):
        screen, terminal = pty.openpty()
        words = ["--requests", "40", "--concurrency", "2", "--output-tokens", "100"]
        client = subprocess.Popen(
            command(self.service, *words), stdout=subprocess.PIPE, stderr=terminal, text=True
        )
        os.close(terminal)
        shown = b""
        while True:
            try:
                shown += os.read(screen, 4096)
            except OSError:  # The client has ended.
                break
        out, _ = client.communicate(timeout=SECONDS)
        os.close(screen)

        self.assertEqual(client.returncode, 0)
        self.assertRegex(shown.decode(), r"bench +\d+%  \[#*\.*\]  \d+ done, \d running")
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-80:])
        self.assertIn("40 ok", out)

    def test_nobody_there_is_told_plainly(self):
        done = subprocess.run(
            [PROGRAMS + "/phalanx", "bench", "serve", "--address", "127.0.0.1:1"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

        self.assertEqual(done.returncode, 1)
        self.assertIn("no service answers at 127.0.0.1:1; start one with `phalanx serve`", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
