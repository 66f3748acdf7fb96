"""What /proc tells of a tree of processes."""

import os
import subprocess
import sys

from benchmarks.sampling import Noise, Sampler, use_of

# A child below a child: both use memory, and the one below works.
BELOW = "held = bytearray(30_000_000); held[::4096] = b'x' * len(held[::4096]); input()"
ABOVE = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BELOW!r} + '; print()'])"


def test_what_a_process_started_counts_as_its_own() -> None:
    noise = Noise()
    with subprocess.Popen([sys.executable, "-c", ABOVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        sampler = Sampler(process.pid, interval=0.01)
        sampler.start()
        while sampler.peak < 30_000_000 or len(sampler.all_cpu) < 2:
            assert process.poll() is None
        during = use_of(process.pid)
        process.communicate(b"\n")
        sampler.stop()
    assert during.threads >= 2
    assert during.files >= 6
    assert sampler.peak >= 30_000_000
    assert sampler.cpu == sum(sampler.all_cpu.values()) > 0
    assert noise.share(sampler) >= 0
    sampler.begin()
    assert sampler.cpu == 0


def test_a_process_that_has_ended_uses_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        assert use_of(process.pid).rss == 0
    assert use_of(os.getpid()).rss > 0
