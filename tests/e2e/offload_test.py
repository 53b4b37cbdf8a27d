"""Where experts live changes no byte: resident on every rank, or in a bank on
the host with slots for the hot ones, whole or cut. Prints what it found."""

import tempfile
import unittest

import synthetic_model
from service import Service, ids_request, until
from tensor_parallel_test import LOGPROBS, QUESTIONS, ask, outcome, same, show

SIZES = (1, 2, 4, 8)
MODES = {
    "resident": ("--moe-mode", "resident"),
    "offload full": ("--moe-mode", "offload", "--offload-bank", "full"),
    "offload sharded": ("--moe-mode", "offload", "--offload-bank", "sharded"),
}
MINI_EXPERTS = 8 * 16
MIB = 1 << 20
# What a process holds beside its plan: programs, libraries, gRPC.
PROCESS_BYTES = 40 * MIB


def answers(service):
    return {name: outcome(ask(service, request)) for name, request in QUESTIONS.items()}


def workers(service):
    return [rank.worker for rank in service.status().groups[0].ranks]


def idle_workers(service):
    """What ranks counted up to now: a status is up to half a second old."""
    end = service.status().uptime_seconds + 1
    until(lambda: service.status().uptime_seconds > end, 10, "a later look at the ranks")
    return workers(service)


def held_bytes(pid):
    """RssAnon and RssShmem of a process: all but mapped files."""
    with open(f"/proc/{pid}/status") as file:
        words = dict(line.split(":", 1) for line in file)
    return sum(int(words[key].split()[0]) * 1024 for key in ("RssAnon", "RssShmem"))


class OffloadTest(unittest.TestCase):
    def test_every_mode_answers_alike_at_every_size(self):
        want, rows, wrong = {}, [], []
        for size in SIZES:
            row = [f"TP {size}"]
            for mode, flags in MODES.items():
                with Service(*flags, tp_size=size) as service:
                    got = answers(service)
                    for worker in workers(service):
                        self.assertEqual(worker.moe_mode, mode.split()[0])
                reference = not want
                want = want or got
                differences = [name for name in QUESTIONS if got[name] != want[name]]
                wrong += [(size, mode, name) for name in differences]
                row.append("the reference" if reference else same(differences))
            rows.append(row)
        title = "phalanx-mini: token ids, log-probabilities and text of "
        show(title + ", ".join(QUESTIONS), ["", *MODES], rows)
        self.assertEqual(wrong, [])

    def test_slots_for_a_quarter_of_the_experts_give_the_same_bytes(self):
        with Service("--moe-mode", "resident", tp_size=2) as service:
            want = answers(service)
        rows, wrong, lookups = [], [], set()
        for bank in ("full", "sharded"):
            flags = (*MODES[f"offload {bank}"], "--expert-slots", str(MINI_EXPERTS // 4))
            with Service(*flags, tp_size=2) as service:
                got = answers(service)
                caches = [worker.expert_cache for worker in idle_workers(service)]
            wrong += [(bank, name) for name in QUESTIONS if got[name] != want[name]]
            for rank, cache in enumerate(caches):
                needed = cache.hits + cache.fetches
                lookups.add(needed)
                self.assertEqual(cache.slots, MINI_EXPERTS // 4)
                self.assertGreater(cache.hits, 0)
                self.assertGreater(cache.fetches, MINI_EXPERTS // 4)
                self.assertGreater(cache.fetched_bytes, 0)
                rows.append(
                    [
                        f"{bank}, rank {rank}",
                        f"{cache.slots} of {MINI_EXPERTS}",
                        f"{cache.hits / needed:.1%} of {needed}",
                        f"{cache.fetched_bytes / MIB:.1f} MiB",
                        same([name for name in QUESTIONS if got[name] != want[name]]),
                    ]
                )
        head = ["phalanx-mini, TP 2", "slots", "hits", "fetched", "bytes"]
        show("Slots for a quarter of the experts", head, rows)
        self.assertEqual(wrong, [])
        self.assertEqual(len(lookups), 1, "every rank needs the same experts")

    def test_a_model_four_times_larger_than_the_budget_answers(self):
        request = ids_request([5, 300, 77, 12, 900], 16, output=LOGPROBS)
        with tempfile.TemporaryDirectory(prefix="phalanx-e2e-") as folder:
            size = synthetic_model.write(folder, hidden=256, width=128, experts=256, layers=8)
            budget = size // 4
            limits = ("--max-running", "2", "--max-model-len", "512", "--prefill-chunk", "64")
            with Service("--moe-mode", "resident", *limits, model=folder) as service:
                want = outcome(ask(service, request))
                resident = held_bytes(service.processes()["rank 0"])
            with Service(*limits, "--memory-budget", str(budget), model=folder) as service:
                got = outcome(ask(service, request))
                held = held_bytes(service.processes()["rank 0"])
                worker = workers(service)[0]
        head = ["", "holds", "budget", "bytes"]
        rows = [
            ["resident", f"{resident / MIB:.0f} MiB", "-", "the reference"],
            [
                "auto, which is " + worker.moe_mode,
                f"{held / MIB:.0f} MiB",
                f"{budget / MIB:.0f} MiB",
                same(["ids, log-probabilities"] * (got != want)),
            ],
        ]
        show(f"A model of {size / MIB:.0f} MiB", head, rows)
        self.assertEqual(worker.moe_mode, "offload")
        self.assertEqual(got, want)
        self.assertEqual(len(got[0]), 16)
        self.assertGreater(resident, size)
        self.assertLess(held, 1.1 * budget + PROCESS_BYTES)

    def test_a_killed_rank_comes_back_and_answers_alike(self):
        for bank in ("full", "sharded"):
            flags = (*MODES[f"offload {bank}"], "--expert-slots", str(MINI_EXPERTS // 4))
            with self.subTest(bank), Service(*flags, tp_size=2) as service:
                want = answers(service)
                epoch = service.wait_serving()
                service.kill("rank 1")
                service.wait_serving(above_epoch=epoch)
                self.assertEqual(answers(service), want)

    def test_a_pack_cache_is_made_once_and_gives_the_same_bytes(self):
        with Service("--moe-mode", "resident", tp_size=2) as service:
            want = answers(service)
        with tempfile.TemporaryDirectory(prefix="phalanx-e2e-") as folder:
            flags = (*MODES["offload sharded"], "--pack-cache", folder)
            said = []
            for _ in range(2):
                with Service(*flags, tp_size=2) as service:
                    self.assertEqual(answers(service), want)
                    said.append(service.log())
        self.assertEqual([log.count('"event":"packed"') for log in said], [1, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
