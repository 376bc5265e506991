"The paper's splits are downloaded, checked and kept, from a server on the loopback address."
import http.server
import io
import threading
import zipfile

import numpy as np
import pytest

from dmns_nb import released
from dmns_nb.checks import InputError
from dmns_nb.files import read_arrays

ROWS = {part: np.random.default_rng(i).integers(50, size=(20, 12))
        for i, part in enumerate(released.parts)}


def archive(rows=ROWS, folder='Cora'):
    "A zip archive like those of the repository"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, 'w', zipfile.ZIP_DEFLATED) as z:
        for part, values in rows.items():
            text = io.StringIO()
            np.savetxt(text, values, fmt='%d')
            z.writestr(f'{folder}/{part}_triples_10.txt', text.getvalue())
    return packed.getvalue()


@pytest.fixture
def server():
    "A server that answers every request with `server.data`, and its address"
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            self.send_response(server.status)
            self.send_header('Content-Length', str(len(server.data)))
            self.end_headers()
            self.wfile.write(server.data[:server.cut])
        def log_message(self, *args): "Quiet"
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.data, server.status, server.cut, server.asked = archive(), 200, None, []
    server.base = f'http://127.0.0.1:{server.server_port}'
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture(autouse=True)
def checksum(monkeypatch):
    expected = released.checksum({part: rows[:, :11] for part, rows in ROWS.items()})
    monkeypatch.setitem(released.checksums, 'cora', expected)


def test_a_split_is_downloaded_once(server, tmp_path):
    path = released.released_split_file('cora', tmp_path, server.base)
    assert path == tmp_path/'splits'/'cora.npz'
    assert server.asked == [f'/{released.commit}/data/Cora.zip']
    arrays = read_arrays(path, released.parts)
    assert all((arrays[part] == rows[:, :11]).all() for part, rows in ROWS.items())
    assert released.released_split_file('cora', tmp_path, server.base) == path
    assert len(server.asked) == 1 and [p.name for p in path.parent.iterdir()] == ['cora.npz']


@pytest.mark.parametrize('change, message', [
    (dict(data=archive(ROWS | dict(val=ROWS['test']))), 'checksum is another one'),
    (dict(data=archive()[:300]), 'damaged or not the expected one'),
    (dict(cut=200), 'cannot be downloaded|damaged'),
    (dict(data=archive(folder='Citeseer')), 'damaged or not the expected one'),
    (dict(status=404), 'cannot be downloaded'),
    (dict(data=bytes(9_000_000)), 'larger than 8,000,000 bytes'),
], ids=['other rows', 'truncated', 'broken off', 'another graph', 'not there', 'too large'])
def test_what_is_not_the_split_is_refused(server, tmp_path, change, message):
    for name, value in change.items(): setattr(server, name, value)
    with pytest.raises(InputError, match=message):
        released.released_split_file('cora', tmp_path, server.base)
    assert not list(tmp_path.rglob('*.npz'))


def test_an_archive_that_unpacks_to_too_much_is_refused():
    with pytest.raises(InputError, match='damaged'): released.read_archive(archive(), 'Cora', 100)


def test_without_a_network(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match='cannot be downloaded'):
        released.released_split_file('cora', tmp_path, server.base)
