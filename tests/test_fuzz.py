"Bad files: a right result or one `InputError`; no pickle loaded, no memory out of proportion."
import gzip
import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from dmns_nb.checkpoints import load_saved, plain_settings, save_atomically
from dmns_nb.checks import InputError
from dmns_nb.graphs import Graph, load_graph, synth_graph
from dmns_nb.methods import Run, fit
from dmns_nb.records import Results
from dmns_nb.settings import Config
from dmns_nb.splits import Split, read_split, split_links

GRAPH = synth_graph()
SPLIT = split_links(GRAPH)
NAMES = [f'näme {i}' for i in range(GRAPH.num_nodes)]
TWO_EPOCHS = Config('gcn', 'compact', epochs=2)


def write_table(path, separator, name):
    rows = [('source', 'target'), *((name(u), name(v)) for u, v in GRAPH.links[:40].tolist())]
    path.write_text(''.join(separator.join(row) + '\n' for row in rows))


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    "A good file of every kind, and the way to read it"
    folder = tmp_path_factory.mktemp('good')
    GRAPH.save(folder/'graph.npz', note='a fact')
    SPLIT.save(folder/'split.npz')
    write_table(folder/'links.csv', ',', NAMES.__getitem__)
    write_table(folder/'links.tsv', '\t', str)
    write_table(folder/'links.txt', ' ', str)
    (folder/'packed.csv.gz').write_bytes(gzip.compress((folder/'links.csv').read_bytes()))
    features = ''.join(f'{n},{i},.5\n' for i, n in enumerate(NAMES))
    (folder/'features.csv').write_text('node,x,y\n' + features)
    run = fit(SPLIT, TWO_EPOCHS, checkpoint=folder/'state.checkpoint')
    run.save(folder/'trained.run')
    return folder


def read_text_split(path):
    "The text files of a split, one of them replaced"
    folder = path.with_suffix('')
    folder.mkdir(exist_ok=True)
    for part in ('train', 'val', 'test'):
        np.savetxt(folder/f'{part}.txt', getattr(SPLIT, part)[:20], fmt='%d')
    (folder/'val.txt').write_bytes(path.read_bytes())
    return read_split(folder, GRAPH)


READERS = {
    'graph.npz': load_graph, 'links.csv': load_graph, 'links.tsv': load_graph,
    'links.txt': load_graph, 'packed.csv.gz': load_graph,
    'features.csv': lambda path: load_graph(path.with_name('links.csv'), features=path),
    'split.npz': lambda path: read_split(path, GRAPH),
    'trained.run': lambda path: Run.load(path, SPLIT),
    'state.checkpoint': lambda path: fit(SPLIT, TWO_EPOCHS, checkpoint=path, resume=True)}


def damaged(data: bytes, rng, cases):
    "The file cut short, with bytes changed, with a part doubled, and noise"
    for cut in np.linspace(0, len(data) - 1, cases//4).astype(int): yield data[:cut]
    for _ in range(cases//2):
        wrong = bytearray(data)
        for i in rng.integers(len(data), size=rng.integers(1, 5)): wrong[i] = rng.integers(256)
        yield bytes(wrong)
    for _ in range(cases//8):
        a, b = np.sort(rng.integers(len(data), size=2))
        yield data[:b] + data[a:b] + data[b:]
        yield rng.bytes(rng.integers(1, 400))


@pytest.mark.parametrize('name', READERS)
def test_damaged_files(files, tmp_path, name):
    rng, data = np.random.default_rng(0), (files/name).read_bytes()
    for other in files.iterdir(): (tmp_path/other.name).write_bytes(other.read_bytes())
    assert READERS[name](tmp_path/name) is not None
    refused = 0
    for i, wrong in enumerate(damaged(data, rng, 32 if name == 'state.checkpoint' else 80)):
        (tmp_path/name).write_bytes(wrong)
        tracemalloc.start()
        try: found = READERS[name](tmp_path/name)
        except InputError as e:
            refused += 1
            assert str(e) and '\n' not in str(e), (i, e)
        else: assert isinstance(found, (Graph, Split, Run)), i
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 50e6, (i, peak)
    assert refused > 10


def test_damaged_text_split(tmp_path):
    rng = np.random.default_rng(0)
    data = '\n'.join(' '.join(map(str, row)) for row in SPLIT.val[:20].tolist()).encode()
    for wrong in damaged(data, rng, 80):
        (tmp_path/'part.txt').write_bytes(wrong)
        try: read_text_split(tmp_path/'part.txt')
        except InputError: pass


class Bomb:
    "Leaves a trace when it is unpickled"
    def __init__(self, trace): self.trace = str(trace)
    def __reduce__(self): return os.mkdir, (self.trace,)


@pytest.mark.parametrize('name', [n for n in READERS if not n.endswith(('.csv', '.tsv', '.txt'))])
def test_no_pickle_is_loaded(files, tmp_path, name):
    trace, code = tmp_path/'trace', pickle.dumps(Bomb(tmp_path/'trace'))
    def archive(path, members):
        with zipfile.ZipFile(path, 'w') as z:
            for member in members: z.writestr(member, code)
    torch.save(dict(kind='run', x=Bomb(trace)), tmp_path/'torch')
    np.save(tmp_path/'numpy.npy', np.array([Bomb(trace)], dtype=object))
    archive(tmp_path/'zip', ['links.npy', 'train.npy', 'val.npy', 'test.npy'])
    archive(tmp_path/'zip2', ['archive/data.pkl', 'archive/version'])
    for data in [code, *((tmp_path/n).read_bytes() for n in ('torch', 'numpy.npy', 'zip', 'zip2'))]:
        (tmp_path/name).write_bytes(data)
        with pytest.raises(InputError): READERS[name](tmp_path/name)
        assert not trace.exists()


@pytest.mark.parametrize('text', [
    '0,1\n1,1000000000000\n', '0,1\n1,99999999999999999999999\n', f'0,1\n1,{"9"*400}\n',
    '0,1\n1,2147483647\n'])
def test_huge_ids_take_no_room(tmp_path, text):
    (tmp_path/'links.csv').write_text(text)
    graph = load_graph(tmp_path/'links.csv')
    assert graph.num_nodes == 3 and 'taken as names' in repr(graph)


@pytest.mark.parametrize('links', [
    [[0, 10**12]], np.array([[0, 2**64 - 1]], dtype=np.uint64), [[0., 1e300]], [[0, 2**31]]])
def test_huge_ids_in_arrays_are_refused(tmp_path, links):
    np.savez(tmp_path/'graph.npz', links=links)
    with pytest.raises(InputError, match='number'): load_graph(tmp_path/'graph.npz')


def test_packed_checkpoint_is_refused(tmp_path):
    parts = dict(identity=dict(config=plain_settings(Config())), history=[], best_epoch=1,
                 seconds=1., weights=dict(x=torch.zeros(10**6)))
    save_atomically(dict(kind='run', **parts), tmp_path/'plain')
    with zipfile.ZipFile(tmp_path/'plain') as old, \
         zipfile.ZipFile(tmp_path/'packed', 'w', zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist(): new.writestr(member.filename, old.read(member))
    assert load_saved(tmp_path/'plain', 'run')['weights']['x'].sum() == 0
    with pytest.raises(InputError, match='cut short'): load_saved(tmp_path/'packed', 'run')


def test_results_lines(tmp_path):
    records = Path(__file__).parent.parent/'results'/'runs.jsonl'
    lines = records.read_bytes().splitlines(True)[:3]
    rng, file = np.random.default_rng(0), tmp_path/'runs.jsonl'
    file.write_bytes(b''.join(lines))
    assert len(Results(tmp_path).read()) == 3
    strange = [b'null\n', b'[]\n', b'{}\n', b'{"dataset":1,"split":2,"config":3,"ranks":4}\n',
               b'\xff\xfe\n', b'[' * 5000 + b'\n', b'1e999\n', b'"\n']
    cut = damaged(lines[0][:3000] + b'\n', rng, 80)
    for wrong in [*(lines[0] + bad for bad in strange), *cut]:
        file.write_bytes(wrong)
        try: found = Results(tmp_path).read()
        except InputError as e: assert 'line' in str(e)
        else: assert all(json.dumps(r) for r in found.values())
