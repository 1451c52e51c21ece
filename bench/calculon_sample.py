"""Runs Calculon's command line on a part of its search: calculon_sample.py SECONDS PROGRAM
ARGUMENT...

Its search is a list of independent tasks, which it gives to a pool of processes. All of them take
hours on one core. Here they run in this process, in an order drawn once, until SECONDS of processor
time are spent. The last line says how many were run.
"""
import json
import multiprocessing
import random
import runpy
import sys
import time


def pool_for(seconds, ran):
    class Pool:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def starmap(self, search, pieces):
            pieces = list(pieces)
            ran["all_pieces"] = len(pieces)
            random.Random(1).shuffle(pieces)
            found = []
            start = time.process_time()
            while len(found) < len(pieces) and time.process_time() - start < seconds:
                found.append(search(*pieces[len(found)]))
            ran.update(pieces=len(found), cpu_seconds=time.process_time() - start)
            return found
    return Pool


def main():
    ran = {}
    multiprocessing.Pool = pool_for(float(sys.argv[1]), ran)
    sys.argv = sys.argv[2:]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        print(json.dumps(ran))


main()
