"The tests with the longest waits come first, so that two workers end at the same time."
import gc

LONGEST = ('test_cuda', 'test_site', 'test_processes', 'test_disk')


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_collection_finish(): gc.freeze()   # what was imported stays: nothing to look through
