"""Replaces the mpirun of an MPIJob's launcher: fake_mpirun.py WORKERS COMMAND...

It runs the command once for each worker. The first to fail ends the others.
"""
import os
import signal
import subprocess
import sys


def mpirun(workers, words):
    children = [subprocess.Popen(words, env={**os.environ, "OMPI_COMM_WORLD_RANK": str(i)}) for i in range(workers)]
    signal.signal(signal.SIGTERM, lambda *_: [child.terminate() for child in children])
    code = 0
    while children:
        pid, status = os.wait()
        child = next(each for each in children if each.pid == pid)
        children.remove(child)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0 and code == 0:
            code = child.returncode
            for other in children:
                other.terminate()
    return code


if __name__ == "__main__":
    sys.exit(mpirun(int(sys.argv[1]), sys.argv[2:]))
