"The tests with the longest waits come first, so that two workers end at the same time."

LONGEST = ('test_cuda', 'test_site', 'test_processes', 'test_disk')


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)
