"""deploy/quickstart.sh, where everything is installed and built already: the
second run, which takes seconds."""

import os
import signal
import subprocess
import unittest

from service import PROGRAMS, Surroundings
from stubs import ROOT

SCRIPT = ROOT + "/deploy/quickstart.sh"
SECONDS = 120


@unittest.skipUnless(
    os.path.realpath(PROGRAMS) == os.path.realpath(ROOT + "/build/release/bin"),
    "the script runs the release build, and these are other programs",
)
class QuickstartTest(unittest.TestCase):
    def setUp(self):
        self.surroundings = Surroundings()
        self.addCleanup(self.surroundings.close)

    def start(self, *arguments):
        return subprocess.Popen(
            ["bash", SCRIPT, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.surroundings.environment(),
            # A group of its own, as a terminal would give it, that hears Ctrl-C.
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def check_answer(self, said):
        self.assertRegex(said, r"Serving: ready address=\S+ admin=\S+ metrics=\S+ tp_size=2 ")
        self.assertIn("> What is 2 + 3?\n", said)
        self.assertIn("\n2 + 3 = 5.\n", said)
        self.assertRegex(said, r"31 tokens, first after [0-9]+ ms, [0-9]+ tokens/s")
        for verb in ("chat", "generate", "status"):
            self.assertRegex(said, rf"(?m)^  \S*build/release/bin/phalanx {verb}\b")

    def test_once_answers_and_stops(self):
        process = self.start("--once")
        said, _ = process.communicate(timeout=SECONDS)

        self.assertEqual(process.returncode, 0, said)
        self.check_answer(said)
        self.surroundings.nothing_left(seconds=1)

    def test_it_serves_until_ctrl_c(self):
        process = self.start()
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("Serving until Ctrl-C"):
                break
        self.check_answer(said)
        self.assertIn("serve", self.surroundings.processes())

        os.killpg(process.pid, signal.SIGINT)

        with process.stdout:
            self.assertIn("Stopping", process.stdout.read())
        self.assertEqual(process.wait(SECONDS), 0)
        self.surroundings.nothing_left(seconds=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
