"""Child processes end with their parent."""

import subprocess
import sys
import time

from fake_kernel import alive


def test_a_child_dies_with_its_process():
    code = (
        "import os, signal, subprocess, sys; from msbgen.core.processes import die_with_parent\n"
        "child = subprocess.Popen(['sleep', '60'], preexec_fn=die_with_parent())\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    until = time.monotonic() + 10
    while alive(int(done.stdout)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(int(done.stdout))
