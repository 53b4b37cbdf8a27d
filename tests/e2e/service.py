"""One `phalanx serve` as a test sees it, and what may not be left of it."""

import os
import queue
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import uuid

import grpc

import stubs

PROGRAMS = os.environ.get("PHALANX_PROGRAM_DIR", stubs.ROOT + "/build/release/bin")
MODEL = stubs.ROOT + "/deploy/models/phalanx-mini"
GOLDEN_MODELS = stubs.ROOT + "/tests/golden/models"

# A loaded machine of two cores starts eight ranks in a few seconds.
START_SECONDS = 90
STOP_SECONDS = 20
CALL_SECONDS = 120
_POLL_SECONDS = 0.01


def until(condition, seconds, what):
    """The first true value of condition(), looked at until `seconds` are up."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(_POLL_SECONDS)


class Surroundings:
    """What one `serve` runs in: a runtime folder, and a mark in the environment
    by which every process that descends from it is found."""

    def __init__(self):
        self.runtime = tempfile.mkdtemp(prefix="phalanx-e2e-")
        self._mark = f"PHALANX_E2E_MARK={uuid.uuid4()}"
        self._seen = set()

    def environment(self):
        name, value = self._mark.split("=")
        return {**os.environ, "XDG_RUNTIME_DIR": self.runtime, name: value}

    def processes(self):
        """{"serve": pid, "gateway": pid, "rank 0": pid, ...} of what runs."""
        found = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if self._mark.encode() not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().decode().split("\0")
            except OSError:  # It ended while we looked.
                continue
            role = os.path.basename(words[0]).replace("phalanx-", "")
            if role == "worker":
                role = "rank " + words[words.index("--rank") + 1]
            found[role.replace("phalanx", "serve")] = int(entry)
            self._seen.add(int(entry))
        return found

    def segments(self):
        """Names in shared memory that these processes made."""
        return [
            name
            for name in os.listdir("/dev/shm")
            if (made := re.match(r"phalanx-(\d+)-", name)) and int(made[1]) in self._seen
        ]

    def left(self):
        return list(self.processes().items()) + self.segments()

    def nothing_left(self, seconds=STOP_SECONDS):
        until(lambda: not self.left(), seconds, "every process and segment is gone")

    def close(self):
        for pid in self.processes().values():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.runtime, ignore_errors=True)


def serve_command(flags, model, tp_size):
    command = [PROGRAMS + "/phalanx", "serve", "--tp-size", str(tp_size)]
    return command + ["--model", model or MODEL, *flags]


def failed_start(*flags, model=None, tp_size=1, seconds=20, while_starting=None):
    """(exit code, stderr) of a `serve` that must end by itself in time and
    leave nothing. `while_starting` gets its surroundings meanwhile."""
    surroundings = Surroundings()
    try:
        with tempfile.TemporaryFile("a+") as log:
            process = subprocess.Popen(
                serve_command(flags, model, tp_size),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=surroundings.environment(),
            )
            if while_starting:
                while_starting(surroundings)
            code = process.wait(seconds)
            surroundings.nothing_left()
            log.seek(0)
            return code, log.read()
    finally:
        surroundings.close()


class Service:
    """A running `serve`, for a `with`; nothing may be left of it afterwards."""

    def __init__(self, *flags, model=None, tp_size=1):
        self._command = serve_command(flags, model, tp_size)
        self.surroundings = Surroundings()
        self._log = tempfile.TemporaryFile("a+")
        self._lines = queue.Queue()
        self.process = None

    def __enter__(self):
        try:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=self.surroundings.environment(),
            )
            threading.Thread(target=self._read, daemon=True).start()
            self.ready = self._wait_ready()
            self.processes()
        except BaseException:
            self._close()
            raise
        self._channels = []
        self.inference = stubs.inference_rpc.InferenceStub(self.channel())
        self.admin = stubs.admin_rpc.AdminStub(self.channel("admin"))
        return self

    def __exit__(self, error, *_):
        for channel in self._channels:
            channel.close()
        try:
            if self.process.poll() is None:
                self.processes()  # Whose segments to look for.
                self.process.send_signal(signal.SIGTERM)
                code = self.process.wait(STOP_SECONDS)
                assert code == 0, f"serve ended with {code} on SIGTERM\n{self.log()}"
            self.surroundings.nothing_left()
        finally:
            if error:
                print(self.log()[-4000:])
            self._close()

    def _close(self):
        self.surroundings.close()
        if self.process:
            self.process.wait()
        self._log.close()

    def _read(self):
        with self.process.stdout:
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put("")

    def _wait_ready(self):
        line = self._lines.get(timeout=START_SECONDS)
        assert line.startswith("ready "), f"serve said {line!r}\n{self.log()}"
        return dict(word.split("=", 1) for word in line.split()[1:])

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def processes(self):
        return self.surroundings.processes()

    def kill(self, role, number=signal.SIGKILL):
        os.kill(self.processes()[role], number)

    def nothing_left(self, seconds):
        self.surroundings.nothing_left(seconds)

    def channel(self, which="address"):
        """A connection of its own."""
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 200),
        ]
        channel = grpc.insecure_channel(self.ready[which], options)
        self._channels.append(channel)
        return channel

    def status(self):
        return self.admin.GetStatus(stubs.admin.GetStatusRequest(), timeout=10)

    def wait_serving(self, above_epoch=0, seconds=START_SECONDS):
        """The epoch under which the group is ready."""

        def look():
            try:
                status = self.status()
            except grpc.RpcError:
                return 0
            epoch = status.groups[0].epoch
            return epoch if status.state == "ready" and epoch > above_epoch else 0

        return until(look, seconds, f"the group serves in an epoch above {above_epoch}")


class Answer:
    """The events of one stream, read to its end or to `stop(event)`."""

    def __init__(self, stream, stop=None):
        self.events = []
        for event in stream:
            self.events.append(event)
            if stop and stop(event):
                break

    def kinds(self):
        return [event.WhichOneof("event") for event in self.events]

    def deltas(self):
        return [e.delta for e in self.events if e.HasField("delta")]

    def text(self, channel=None):
        return "".join(d.text for d in self.deltas() if channel in (None, d.channel))

    def ids(self):
        return [i for delta in self.deltas() for i in delta.token_ids]

    def logprobs(self):
        """Of the chosen and of the top tokens, as numbers that compare by bit."""
        return [
            (one.token_id, bits(one.logprob), [(t.token_id, bits(t.logprob)) for t in one.top])
            for delta in self.deltas()
            for one in delta.logprobs
        ]


def bits(number):
    """The bits of a float as it travelled; -0.0 and 0.0 differ."""
    return struct.pack("<f", number)


def reason(error):
    """(code, reason, metadata) of a refused call."""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        details = stubs.rpc_status.Status.FromString(value)
        info = stubs.rpc_status.ErrorInfo()
        if details.details and details.details[0].Unpack(info):
            return error.code(), info.reason, dict(info.metadata)
    return error.code(), "", {}


def chat_request(*messages, temperature=0.0, **fields):
    """Of "user" messages, or of (role, content) pairs."""
    pairs = [("user", m) if isinstance(m, str) else m for m in messages]
    fields.setdefault("sampling", {"temperature": temperature})
    return stubs.inference.ChatRequest(
        messages=[{"role": role, "content": content} for role, content in pairs], **fields
    )


def ids_request(ids, max_tokens=16, **fields):
    """Greedy, past every end token."""
    fields.setdefault("sampling", {"temperature": 0.0})
    fields.setdefault("stopping", {"max_tokens": max_tokens, "ignore_eos": True})
    return stubs.inference.GenerateRequest(token_ids={"ids": ids}, **fields)


def text_request(text, **fields):
    fields.setdefault("sampling", {"temperature": 0.0})
    return stubs.inference.GenerateRequest(text=text, **fields)


def long_request(**fields):
    """Runs for thousands of tokens: long enough to be interrupted."""
    return ids_request([54, 71, 78, 347], max_tokens=8000, **fields)
