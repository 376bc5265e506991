"A graph in a folder: memory does not grow with the number of links, and the command that makes it."
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from dmns_nb.checks import InputError
from dmns_nb.disk import DiskGraph, convert_links
from dmns_nb.graphs import load_graph
from dmns_nb.methods import fit
from dmns_nb.predict import predict_links
from dmns_nb.settings import Config
from dmns_nb.splits import load_split, split_on_disk
from test_commands import forked

CONVERT_AND_TRAIN = '''if True:
    import sys, torch
    from dmns_nb.disk import convert_links
    from dmns_nb.methods import fit
    from dmns_nb.records import peak_memory
    from dmns_nb.settings import Config
    from dmns_nb.splits import load_split
    torch.set_num_threads(1)
    table, folder = sys.argv[1:]
    convert_links(table, folder, hidden=500, lines=50_000)
    settings = dict(batch_size=5000, epoch_links=20_000, epochs=1)
    fit(load_split(folder), Config('dmns', 'compact', encoder='sign', **settings), quiet=True)
    sampled = Config('gcn', 'compact', num_neighbors=(5, 5), **settings)
    fit(load_split(folder), sampled, quiet=True)
    print(peak_memory())
'''
IN_MEMORY = '''if True:
    import sys
    from dmns_nb.graphs import load_graph
    from dmns_nb.methods import fit
    from dmns_nb.records import peak_memory
    load_graph(sys.argv[1])
    print(peak_memory())
'''


def table_of(path, num_links, num_nodes=20_000):
    "A table of random links"
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.integers(num_nodes, size=(num_links, 2))).to_csv(path, index=False,
                                                                      header=False)
    return path


def megabytes(code, *args):
    "Peak memory of a process that runs this code"
    done = subprocess.run([sys.executable, '-c', code, *map(str, args)], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform != 'linux', reason='reads the peak memory from /proc')
def test_memory_stays_flat_while_links_grow_tenfold(tmp_path):
    small, large = (table_of(tmp_path/f'{m}.csv', m) for m in (100_000, 1_000_000))
    flat = [megabytes(CONVERT_AND_TRAIN, table, tmp_path/table.stem) for table in (small, large)]
    in_memory = [megabytes(IN_MEMORY, table) for table in (small, large)]
    print('in a folder', flat, 'in memory', in_memory)
    assert DiskGraph(tmp_path/'1000000').num_links > 9*DiskGraph(tmp_path/'100000').num_links
    assert flat[1] - flat[0] < 40 < 70 < in_memory[1] - in_memory[0]


def test_the_command_converts_and_refuses_in_one_line(tmp_path):
    table = table_of(tmp_path/'links.csv', 3000, 500)
    command = [sys.executable, '-m', 'dmns_nb', 'convert', str(table), str(tmp_path/'graph')]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(DiskGraph(tmp_path/'graph')) in done.stdout
    again = forked('dmns_convert', str(table), str(tmp_path/'graph'))
    assert again.returncode == 2 and again.stderr.count('\n') == 1
    assert 'is not empty: name a new folder' in again.stderr


@pytest.mark.parametrize('method, settings', [
    ('pairs', ['rounds=5']), ('gcn', ['encoder=sign', 'batch_size=2000', 'epochs=1'])])
def test_a_folder_is_trained_saved_and_predicted_from(tmp_path, method, settings):
    table_of(tmp_path/'links.csv', 3000, 500)
    forked('dmns_convert', 'links.csv', 'graph', cwd=tmp_path, check=True)
    train = ['dmns_train', '--dataset', 'graph', '--method', method, '--set', *settings, '--quiet']
    done = forked(*train, '--out', 'runs', '--predict', '2', cwd=tmp_path, check=True)
    assert 'predicts from it' in done.stdout
    [file] = (tmp_path/'runs').glob('*.run')
    found = pd.read_csv(tmp_path/'predictions.csv')
    graph = DiskGraph(tmp_path/'graph')
    v, u = (torch.tensor(found[name].to_numpy()) for name in ('node', 'predicted'))
    assert len(found) > 900 and not graph.known.linked(v, u).any()
    assert found.probability.between(0, 1).all()
    forked('dmns_predict', str(file), '--nodes', '7', '--top', '2', '--predictions', 'again.csv',
           cwd=tmp_path, check=True)
    again = pd.read_csv(tmp_path/'again.csv')
    first = found[found.node == 7].reset_index(drop=True)
    assert (again.predicted == first.predicted).all() and len(again) == 2
    np.testing.assert_allclose(again.score, first.score, rtol=1e-4)


def test_what_a_folder_cannot_do_is_said_in_one_line(tmp_path):
    table_of(tmp_path/'links.csv', 3000, 500)
    forked('dmns_convert', 'links.csv', 'graph', cwd=tmp_path, check=True)
    train = ['dmns_train', '--dataset', 'graph', '--quiet']
    for more, message in (([], "needs the method 'pairs'"),
                          (['--method', 'pairs', '--out', 'runs', '--refit'], 'is a folder')):
        done = forked(*train, *more, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count('\n') == 1 and message in done.stderr


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    "A small graph in a folder"
    path = tmp_path_factory.mktemp('folder')
    return convert_links(table_of(path/'links.csv', 3000, 500), path/'graph')


def run_on(folder, **settings):
    "A short training"
    options = dict(channels=(8, 8), batch_size=500, epochs=2) | settings
    return fit(load_split(folder), Config('gcn', **options), quiet=True)


def test_a_score_does_not_depend_on_what_is_scored_with_it(folder):
    run = run_on(folder, num_neighbors=(5, 5))
    together = run.score_rows(run.split.test)
    alone = torch.cat([run.score_rows(row) for row in run.split.test[:20].split(1)])
    torch.testing.assert_close(together[:20], alone, rtol=0, atol=1e-5)
    of_all = run.score_all(run.split.test[:20, 0]).gather(1, run.split.test[:20, 1:])
    torch.testing.assert_close(together[:20], of_all, rtol=0, atol=1e-5)
    some, every = predict_links(run, 1, [7, 42]), predict_links(run, 1)
    best = every.set_index('node').predicted
    assert (some.predicted.to_numpy() == best[some.node].to_numpy()).all()


@pytest.mark.parametrize('call, message', [
    (lambda folder: load_graph(folder, bipartite=True), 'knows neither directions nor sides'),
    (lambda folder: load_split(folder, split='any.npz'), 'has a split of its own'),
    (lambda folder: load_split(folder).save('split.npz'), 'is part of the folder'),
    (lambda folder: run_on(folder, encoder='sign').with_nodes([[1.]]), 'gets no new nodes'),
    (lambda folder: split_on_disk(DiskGraph(folder), 600), 'no 600 candidates for them')])
def test_what_a_folder_does_not_have_is_refused(folder, call, message):
    with pytest.raises(InputError, match=message): call(folder)


def test_options_of_a_new_split_are_refused_for_a_folder(folder):
    train = ['dmns_train', '--dataset', str(folder), '--method', 'pairs', '--quiet']
    for option in (['--candidates', '20'], ['--split-seed', '1'], ['--num-val', '.1']):
        done = forked(*train, *option)
        assert done.returncode == 2 and done.stderr.count('\n') == 1
        assert 'has a split of its own: leave out --split-seed' in done.stderr


def test_sign_is_trained_again_on_all_links_in_memory(tmp_path):
    table_of(tmp_path/'links.csv', 3000, 500)
    forked('dmns_train', '--dataset', 'links.csv', '--method', 'gcn', '--quiet', '--predict', '2',
           '--set', 'encoder=sign', 'batch_size=500', 'epochs=2', cwd=tmp_path, check=True)
    assert len(pd.read_csv(tmp_path/'predictions.csv')) == 1000


def test_an_interrupted_average_leaves_no_file(folder, tmp_path):
    graph = DiskGraph(shutil.copytree(folder, tmp_path/'graph'))
    before = sorted(graph.folder.iterdir())
    def interrupted(*args, **options): raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): graph.stored_rows(interrupted, 1, 'sym', 16)
    assert sorted(graph.folder.iterdir()) == before
