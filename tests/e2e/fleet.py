"""Workers and gateways started by hand, as on many machines, on this one."""

import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import grpc

import stubs
from service import CALL_SECONDS, MODEL, PROGRAMS, START_SECONDS, until


class Process:
    """One program of ours, its lines of stderr as they come."""

    def __init__(self, name, *flags):
        self.events = []
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            [f"{PROGRAMS}/phalanx-{name}", "--model", MODEL, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self._process.stderr:
            for line in self._process.stderr:
                self._lines.put(line)

    def event(self, name, seconds=START_SECONDS):
        """The next line of this event, as a dict."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"pid {self.pid} did not say {name!r}") from None
            self.events.append(line)
            entry = json.loads(line)
            if entry["event"] == name:
                return entry

    def signal(self, number):
        os.kill(self.pid, number)

    def running(self):
        return self._process.poll() is None

    def wait(self, seconds):
        """The exit code."""
        return self._process.wait(seconds)

    def kill(self):
        if self.running():
            self.signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join()


class Gateway(Process):
    def __init__(self, *flags):
        super().__init__("gateway", "--metrics-listen", "127.0.0.1:0", *flags)
        said = self.event("listening")
        self.address, self.metrics = said["address"], said["metrics"]
        self._channels = [self.connect(said[key]) for key in ("address", "admin")]
        self.inference = stubs.inference_rpc.InferenceStub(self._channels[0])
        self.health = stubs.health_rpc.HealthStub(self._channels[0])
        self.admin = stubs.admin_rpc.AdminStub(self._channels[1])

    @staticmethod
    def connect(address):
        return grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    def kill(self):
        for channel in self._channels:
            channel.close()
        super().kill()

    def status(self):
        return self.admin.GetStatus(stubs.admin.GetStatusRequest(), timeout=10)

    def groups(self):
        """{name: GroupStatus}."""
        return {group.name: group for group in self.status().groups}

    def wait_state(self, group, state, seconds=START_SECONDS):
        until(
            lambda: self.groups()[group].state == state, seconds, f"group {group} is {state}"
        )

    def generate(self, request):
        return self.inference.Generate(request, timeout=CALL_SECONDS)

    def serving(self, service=""):
        request = stubs.health.HealthCheckRequest(service=service)
        answer = self.health.Check(request, timeout=10)
        return answer.status == stubs.health.HealthCheckResponse.SERVING


class Fleet:
    """For a `with`; what it started is gone afterwards."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="phalanx-fleet-")
        self._processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self._processes):
            process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def address(self, group):
        return f"unix:{self._folder}/{group}.sock"

    def worker(self, group, *flags, listen=None):
        """A group of one rank."""
        flags = ("--listen", listen or self.address(group), "--threads", "1", *flags)
        worker = Process("worker", "--metrics-listen", "off", *flags)
        self._processes.append(worker)
        return worker

    def gateway(self, *groups, flags=(), seconds=START_SECONDS):
        """In front of these groups, once all are ready."""
        named = ";".join(f"{group}={self.address(group)}" for group in groups)
        gateway = Gateway("--groups", named, *flags)
        self._processes.append(gateway)
        for group in groups:
            gateway.wait_state(group, "ready", seconds)
        return gateway

    def gateway_of(self, named, *flags):
        """With --groups as given."""
        gateway = Gateway("--groups", named, *flags)
        self._processes.append(gateway)
        return gateway


def group_of(stream):
    """Which group a stream is in, by its first event."""
    return next(stream).accepted.group
