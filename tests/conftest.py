"One thread, so that tests can fork; the tests with the longest waits come first."
import gc
import os

os.environ['OMP_NUM_THREADS'] = '1'   # a fork of a process with threads waits for them forever
LONGEST = ('test_cuda', 'test_site', 'test_processes', 'test_disk')   # two workers end together


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_collection_finish(): gc.freeze()   # what was imported stays: nothing to look through
