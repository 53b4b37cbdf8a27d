"""What a rank holds, as the kernel counts it, against its plan and its budget;
and how the mode of the experts follows from the budget."""

import json
import re
import tempfile
import unittest

import synthetic_model
from service import (
    CALL_SECONDS,
    Answer,
    Service,
    chat_request,
    failed_start,
    ids_request,
    text_request,
)

SIZES = (1, 2)
# How experts may live; each is held against its plan in the same way.
MODES = (
    ("--moe-mode", "resident"),
    ("--moe-mode", "offload", "--offload-bank", "full"),
    ("--moe-mode", "offload", "--offload-bank", "sharded", "--expert-slots", "32"),
)
# What weights may be held in beside bf16.
FORMATS = ("int8", "int4")

MIB = 1 << 20
# What a process holds at most of a plan: padding of layouts, and 40 MiB for
# code, gRPC, the tables of the model and the heap.
ALLOWED_RATIO = 1.1
ALLOWED_BYTES = 40 * MIB


def held_bytes(pid):
    """Memory that is the process's own or shared: not pages of mapped files."""
    with open(f"/proc/{pid}/status") as file:
        fields = dict(re.findall(r"^(Rss\w+):\s+(\d+) kB$", file.read(), re.M))
    return 1024 * (int(fields["RssAnon"]) + int(fields["RssShmem"]))


def workers(service):
    service.wait_serving()
    return [rank.worker for rank in service.status().groups[0].ranks]


def traffic(service):
    """The largest prefill, many sequences at once, a long decode."""
    prompts = [text_request("The code for red is 512. " * 40, stopping={"max_tokens": 8})]
    prompts += [ids_request([54, 71, 78, 300 + i], 100 + i) for i in range(20)]
    streams = [service.inference.Generate(p, timeout=CALL_SECONDS) for p in prompts]
    for stream in streams:
        Answer(stream)
    Answer(service.inference.Chat(chat_request("What is 2 + 3?"), timeout=CALL_SECONDS))


def mode_events(log):
    """The `moe_mode` lines of the ranks."""
    events = []
    for line in log.splitlines():
        if line.startswith("{") and json.loads(line).get("event") == "moe_mode":
            events.append(json.loads(line))
    return events


class MemoryTest(unittest.TestCase):
    def check(self, worker, when):
        held = held_bytes(worker.pid)
        allowed = ALLOWED_RATIO * worker.planned_bytes + ALLOWED_BYTES
        print(
            f"  {when}: rank {worker.rank} of {worker.tp_size}, {worker.moe_mode}: holds "
            f"{held / MIB:.1f} MiB; plan {worker.planned_bytes / MIB:.1f}, "
            f"allowed {allowed / MIB:.1f}, budget {worker.memory_budget_bytes / MIB:.1f} MiB",
            flush=True,
        )
        self.assertGreater(worker.planned_bytes, 0)
        self.assertLessEqual(worker.planned_bytes, worker.memory_budget_bytes)
        self.assertLessEqual(held, allowed)

    def check_shares(self, worker):
        """The pools that were made are those that were planned."""
        shares = sum(use.bytes for use in worker.memory)
        # The plan counts the host's copies of logits, and no padding.
        self.assertLess(0.95 * worker.planned_bytes, shares)
        self.assertLess(shares, 1.001 * worker.planned_bytes)

    def test_a_rank_holds_its_plan_and_little_more(self):
        for size in SIZES:
            for mode in MODES:
                with self.subTest(size=size, mode=mode):
                    with Service(*mode, tp_size=size) as service:
                        ranks = workers(service)
                        self.assertEqual(len(ranks), size)
                        for worker in ranks:
                            self.check(worker, "loaded")
                            self.check_shares(worker)
                        traffic(service)
                        for worker in ranks:
                            self.check(worker, "after traffic")

    def test_a_large_model_is_held_once(self):
        limits = ("--max-running", "2", "--max-model-len", "512", "--prefill-chunk", "64")
        with tempfile.TemporaryDirectory(prefix="phalanx-e2e-") as folder:
            size = synthetic_model.write(folder, hidden=256, width=128, experts=128, layers=8)
            for ranks in SIZES:
                for mode in MODES[:2]:
                    # A quarter of the experts, where that is a question.
                    flags = (*mode, *limits, "--expert-slots", "256")
                    with self.subTest(ranks=ranks, mode=mode):
                        with Service(*flags, model=folder, tp_size=ranks) as service:
                            request = ids_request([5, 300, 77, 12], 32)
                            Answer(service.inference.Generate(request, timeout=CALL_SECONDS))
                            for worker in workers(service):
                                self.check(worker, "a large model")
                                self.check_shares(worker)
                                # Else a second copy would go unseen.
                                slack = 0.1 * worker.planned_bytes + ALLOWED_BYTES
                                if worker.moe_mode == "resident":
                                    self.assertGreater(worker.planned_bytes, 0.9 * size / ranks)
                                    self.assertGreater(worker.planned_bytes, slack)

    def test_a_large_model_in_a_smaller_format_is_held_as_planned(self):
        limits = ("--max-running", "2", "--max-model-len", "512", "--prefill-chunk", "64")
        with tempfile.TemporaryDirectory(prefix="phalanx-e2e-") as folder:
            size = synthetic_model.write(folder, hidden=256, width=128, experts=128, layers=8)
            for weights, ratio in zip(FORMATS, (0.6, 0.4)):
                flags = ("--weights", weights, *MODES[0], *limits)
                with self.subTest(weights=weights):
                    with Service(*flags, model=folder) as service:
                        request = ids_request([5, 300, 77, 12], 32)
                        Answer(service.inference.Generate(request, timeout=CALL_SECONDS))
                        (worker,) = workers(service)
                        self.check(worker, weights)
                        self.check_shares(worker)
                        self.assertLess(worker.planned_bytes, ratio * size + ALLOWED_BYTES)

    def test_every_rank_gets_the_same_budget_and_says_how_it_chose(self):
        with Service(tp_size=2) as service:
            ranks = workers(service)
            events = mode_events(service.log())

            self.assertEqual(len({w.memory_budget_bytes for w in ranks}), 1)
            self.assertEqual({w.moe_mode for w in ranks}, {"resident"})
            self.assertEqual([e["chosen"] for e in events], ["resident"] * 2)
            for event in events:
                self.assertIn("fits the budget", event["why"])
                self.assertEqual(event["budget_bytes"], ranks[0].memory_budget_bytes)
                self.assertLessEqual(event["needed_bytes"], event["budget_bytes"])

    def test_the_budget_of_the_flag_bounds_the_plan(self):
        budget = 32 * MIB
        with Service("--memory-budget", "32MiB", tp_size=2) as service:
            for worker in workers(service):
                self.assertEqual(worker.memory_budget_bytes, budget)
                self.assertLessEqual(worker.planned_bytes, budget)
                self.assertGreater(worker.planned_bytes, 0.9 * budget)
            traffic(service)

    def test_a_budget_that_holds_nothing_is_refused_with_what_would_do(self):
        code, said = failed_start("--memory-budget", "1MiB", "--moe-mode", "resident")

        self.assertNotEqual(code, 0)
        last = said.strip().splitlines()[-1]
        self.assertIn("its budget is 1.00 MiB", last)
        least = int(re.search(r"--memory-budget at least (\d+)", last)[1])
        with Service("--memory-budget", str(least), "--moe-mode", "resident") as service:
            self.assertEqual(workers(service)[0].planned_bytes, least)


if __name__ == "__main__":
    unittest.main(verbosity=2)
