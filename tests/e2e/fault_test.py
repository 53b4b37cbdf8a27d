"""What a client sees, and what is left, when a process is killed."""

import signal
import time
import unittest

import grpc

from service import CALL_SECONDS, Answer, Service, chat_request, long_request, reason, until

STREAMS = 3
# How soon a client must hear that its stream is lost.
NEWS_SECONDS = 2
QUESTION = chat_request("What is 2 + 3?", output={"logprobs": True})


def ask(service):
    answer = Answer(service.inference.Chat(QUESTION, timeout=CALL_SECONDS))
    return answer.ids(), answer.logprobs(), answer.text()


class FaultTest(unittest.TestCase):
    def lose(self, service, role):
        """Kills `role` while streams run; the errors that end them, each in
        time, and the other processes as they were."""
        streams = [
            service.inference.Generate(long_request(), timeout=CALL_SECONDS)
            for _ in range(STREAMS)
        ]
        for stream in streams:
            Answer(stream, stop=lambda event: event.seq == 5)
        before = service.processes()

        service.kill(role)
        killed = time.monotonic()
        errors = []
        for stream in streams:
            with self.assertRaises(grpc.RpcError) as ended:
                Answer(stream)
            errors.append(ended.exception)

        self.assertLess(time.monotonic() - killed, NEWS_SECONDS)
        after = until(
            lambda: (now := service.processes()).keys() == before.keys()
            and now[role] != before[role]
            and now,
            30,
            f"{role} is restarted",
        )
        others = before.keys() - {role}
        self.assertEqual({r: after[r] for r in others}, {r: before[r] for r in others})
        return errors

    def survives(self, role):
        with Service(tp_size=2) as service:
            answer = ask(service)
            epoch = service.wait_serving()

            errors = self.lose(service, role)

            for error in errors:
                code, word, facts = reason(error)
                self.assertEqual(
                    (code, word), (grpc.StatusCode.UNAVAILABLE, "GROUP_LOST"), error.details()
                )
                self.assertEqual(facts.get("epoch"), str(epoch))
            service.wait_serving(above_epoch=epoch)
            self.assertEqual(ask(service), answer)

    def test_a_group_survives_the_loss_of_a_follower(self):
        self.survives("rank 1")

    def test_a_group_survives_the_loss_of_its_leader(self):
        self.survives("rank 0")

    def test_clients_find_a_restarted_gateway_where_it_was(self):
        with Service(tp_size=2) as service:
            answer = ask(service)
            epoch = service.wait_serving()

            errors = self.lose(service, "gateway")

            for error in errors:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
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
        with Service(tp_size=2) as service:
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
