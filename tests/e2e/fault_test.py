"""What a client sees, and what is left, when a process is killed or stopped."""

import json
import os
import signal
import time
import unittest

import grpc

from service import (
    CALL_SECONDS,
    Answer,
    Service,
    chat_request,
    ids_request,
    long_request,
    until,
)

STREAMS = 3
# From a loss to the next token, beside what it takes to find a stopped process.
RECOVERY_SECONDS = 2
STEP_TIMEOUT_SECONDS = 2
QUESTION = chat_request("What is 2 + 3?", output={"logprobs": True})


def ask(service):
    answer = Answer(service.inference.Chat(QUESTION, timeout=CALL_SECONDS))
    return answer.ids(), answer.logprobs(), answer.text()


def drain_request():
    """Long enough to be in the middle, short enough to be waited for."""
    return ids_request([54, 71, 78, 347], max_tokens=400)


def lasting_request():
    """Runs on when a rank has been killed."""
    return ids_request([54, 71, 78, 347], max_tokens=2000)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def answer_soon(service, seconds):
    """The first answer that a client gets who asks until it does."""

    def try_once():
        try:
            return ask(service)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return None

    return until(try_once, seconds, "the group answers again")


class LossTest(unittest.TestCase):
    """A rank is lost in whatever way, and the group is whole again: in a higher
    epoch, the others with the weights they had, and with the same answers."""

    def survives(self, role, number, seconds, flags=(), then=None):
        with Service(*flags, tp_size=2) as service:
            answer = ask(service)
            epoch = service.wait_serving()
            stream = service.inference.Generate(long_request(), timeout=CALL_SECONDS)
            Answer(stream, stop=lambda event: event.seq == 5)
            before = service.processes()

            os.kill(before[role], number)
            lost = {role}
            if then:
                lost.add(then(service, before))
            again = answer_soon(service, seconds)
            stream.cancel()

            self.assertEqual(again, answer)
            service.wait_serving(above_epoch=epoch)
            after = service.processes()
            self.assertEqual(after.keys(), before.keys())
            self.assertEqual({r for r in after if after[r] != before[r]}, lost)
            self.assertEqual(ask(service), answer)

    def test_a_killed_leader(self):
        self.survives("rank 0", signal.SIGKILL, RECOVERY_SECONDS)

    def test_a_killed_follower(self):
        self.survives("rank 1", signal.SIGKILL, RECOVERY_SECONDS)

    def test_a_leader_that_aborts(self):
        self.survives("rank 0", signal.SIGABRT, RECOVERY_SECONDS)

    def test_a_follower_that_aborts(self):
        self.survives("rank 1", signal.SIGABRT, RECOVERY_SECONDS)

    def survives_stopped(self, role):
        self.survives(
            role,
            signal.SIGSTOP,
            STEP_TIMEOUT_SECONDS + RECOVERY_SECONDS,
            flags=("--step-timeout", str(STEP_TIMEOUT_SECONDS)),
        )

    def test_a_stopped_leader(self):
        self.survives_stopped("rank 0")

    def test_a_stopped_follower(self):
        self.survives_stopped("rank 1")

    def survives_second_loss(self, second):
        """`second` dies as soon as the successor of rank 1 has been started."""

        def kill_second(service, before):
            def both_run():
                now = service.processes()
                replaced = now.get("rank 1", before["rank 1"]) != before["rank 1"]
                return now if replaced and second in now else None

            now = until(both_run, 10, "rank 1 is started anew")
            os.kill(now[second], signal.SIGKILL)
            return second

        self.survives("rank 1", signal.SIGKILL, 10, then=kill_second)

    def test_the_leader_dies_while_the_group_forms_anew(self):
        self.survives_second_loss("rank 0")

    def test_the_follower_dies_again_while_the_group_forms_anew(self):
        self.survives_second_loss("rank 1")

    def test_a_stopped_process_that_goes_on_in_time_keeps_its_group(self):
        with Service("--step-timeout", "30", tp_size=2) as service:
            answer = ask(service)
            epoch = service.wait_serving()
            before = service.processes()

            service.kill("rank 1", signal.SIGSTOP)
            until(lambda: state_of(before["rank 1"]) == "T", 5, "rank 1 is stopped")
            service.kill("rank 1", signal.SIGCONT)

            self.assertEqual(ask(service), answer)
            self.assertEqual(service.wait_serving(), epoch)
            self.assertEqual(service.processes(), before)


class DrainTest(unittest.TestCase):
    def test_ctrl_c_ends_an_idle_service_within_a_second(self):
        with Service(tp_size=2) as service:
            ask(service)
            began = time.monotonic()
            service.kill("serve", signal.SIGINT)

            self.assertEqual(service.process.wait(10), 0)
            self.assertLess(time.monotonic() - began, 1)
            service.nothing_left(seconds=1)

    def test_running_requests_finish_before_the_service_ends(self):
        with Service(tp_size=2) as service:
            whole = Answer(service.inference.Generate(drain_request(), timeout=CALL_SECONDS))
            stream = service.inference.Generate(drain_request(), timeout=CALL_SECONDS)
            begin = Answer(stream, stop=lambda event: event.seq == 5)

            service.kill("serve", signal.SIGTERM)

            rest = Answer(stream)
            self.assertEqual(begin.ids() + rest.ids(), whole.ids())
            self.assertEqual(service.process.wait(10), 0)

    def test_a_second_signal_ends_all_at_once(self):
        with Service(tp_size=2) as service:
            stream = service.inference.Generate(long_request(), timeout=CALL_SECONDS)
            Answer(stream, stop=lambda event: event.seq == 5)

            service.kill("serve", signal.SIGTERM)
            until(lambda: "stopping" in service.log() or "drain" in service.log(), 5, "it drains")
            began = time.monotonic()
            service.kill("serve", signal.SIGTERM)

            self.assertEqual(service.process.wait(10), 0)
            self.assertLess(time.monotonic() - began, 4)
            service.nothing_left(seconds=1)

    def test_a_rank_that_drains_finishes_its_streams(self):
        """SIGTERM to rank 0 alone: the parent then starts another."""
        with Service(tp_size=2) as service:
            whole = Answer(service.inference.Generate(drain_request(), timeout=CALL_SECONDS))
            epoch = service.wait_serving()
            stream = service.inference.Generate(drain_request(), timeout=CALL_SECONDS)
            begin = Answer(stream, stop=lambda event: event.seq == 5)

            service.kill("rank 0", signal.SIGTERM)

            rest = Answer(stream)
            self.assertEqual(begin.ids() + rest.ids(), whole.ids())
            self.assertNotIn("notice", rest.kinds())  # It was not moved.
            service.wait_serving(above_epoch=epoch)
            self.assertIn("exit code 0", service.log())

    def test_sigquit_makes_every_rank_tell_how_it_is(self):
        with Service(tp_size=2) as service:
            answer = ask(service)
            before = service.processes()

            service.kill("serve", signal.SIGQUIT)

            def told():
                lines = [line for line in service.log().splitlines() if '"diagnostics"' in line]
                found = [json.loads(line) for line in lines]
                ranks = {entry["rank"]: entry for entry in found if "rank" in entry}
                return ranks if len(ranks) == 2 else None

            ranks = until(told, 5, "both ranks have written")
            for entry in ranks.values():
                self.assertEqual(entry["state"], "ready")
                self.assertEqual(entry["epoch"], service.wait_serving())
                self.assertGreater(entry["memory_bytes"]["kv_cache"], 0)
            self.assertEqual(service.processes(), before)
            self.assertEqual(ask(service), answer)


class FaultTest(unittest.TestCase):
    def streams(self, service):
        """Some that run, and what each has said so far."""
        streams = [
            service.inference.Generate(long_request(), timeout=CALL_SECONDS)
            for _ in range(STREAMS)
        ]
        for stream in streams:
            Answer(stream, stop=lambda event: event.seq == 5)
        return streams

    def lose(self, service, role):
        """Kills `role`, and waits until another is there and the rest as they
        were."""
        before = service.processes()
        service.kill(role)
        after = until(
            lambda: (now := service.processes()).keys() == before.keys()
            and now[role] != before[role]
            and now,
            30,
            f"{role} is restarted",
        )
        others = before.keys() - {role}
        self.assertEqual({r: after[r] for r in others}, {r: before[r] for r in others})

    def streams_survive(self, role):
        with Service(tp_size=2) as service:
            whole = Answer(service.inference.Generate(lasting_request(), timeout=CALL_SECONDS))
            streams = [
                service.inference.Generate(lasting_request(), timeout=CALL_SECONDS)
                for _ in range(STREAMS)
            ]
            begins = [Answer(s, stop=lambda event: event.seq == 5) for s in streams]

            self.lose(service, role)

            for begin, stream in zip(begins, streams):
                rest = Answer(stream)
                self.assertIn("notice", rest.kinds())
                self.assertEqual(begin.ids() + rest.ids(), whole.ids())

    def test_streams_survive_the_loss_of_a_follower(self):
        self.streams_survive("rank 1")

    def test_streams_survive_the_loss_of_the_leader(self):
        self.streams_survive("rank 0")

    def test_clients_find_a_restarted_gateway_where_it_was(self):
        with Service(tp_size=2) as service:
            answer = ask(service)
            epoch = service.wait_serving()

            streams = self.streams(service)
            self.lose(service, "gateway")

            for stream in streams:
                with self.assertRaises(grpc.RpcError) as ended:
                    Answer(stream)
                self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)
            # The group never noticed, but that its clients have gone.
            self.assertEqual(service.wait_serving(), epoch)
            self.assertEqual(ask(service), answer)
            ranks = lambda: [r.worker for r in service.status().groups[0].ranks]  # noqa: E731
            until(lambda: all(r.kv_blocks_used == 0 for r in ranks()), 10, "blocks are free")

    def test_the_third_death_within_a_minute_starts_all_anew(self):
        with Service(tp_size=2) as service:
            answer = ask(service)
            for role in ("rank 1", "rank 0", "rank 1"):
                before = service.processes()
                epoch = service.wait_serving()
                service.kill(role)
                service.wait_serving(above_epoch=epoch)

            after = service.processes()
            self.assertEqual(after.keys(), before.keys())
            unchanged = {role for role in after if after[role] == before[role]}
            self.assertEqual(unchanged, {"serve"})
            self.assertEqual(ask(service), answer)

    def test_nothing_is_left_when_the_parent_is_killed(self):
        with Service(tp_size=2) as service:
            stream = service.inference.Generate(long_request(), timeout=CALL_SECONDS)
            Answer(stream, stop=lambda event: event.seq == 5)

            service.kill("serve")

            with self.assertRaises(grpc.RpcError):
                Answer(stream)
            service.nothing_left(seconds=10)

    def test_sigterm_ends_all_with_0(self):
        with Service("--drain-timeout", "1", tp_size=2) as service:
            stream = service.inference.Generate(long_request(), timeout=CALL_SECONDS)
            Answer(stream, stop=lambda event: event.seq == 5)

            service.kill("serve", signal.SIGTERM)

            self.assertEqual(service.process.wait(10), 0)
            service.nothing_left(seconds=1)

    def test_a_second_service_runs_beside_the_first(self):
        with Service(tp_size=2) as first, Service(tp_size=2) as second:
            self.assertEqual(ask(first), ask(second))


if __name__ == "__main__":
    unittest.main(verbosity=2)
