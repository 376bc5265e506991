"Several processes: the numbers of one, and what happens when one of them dies."
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dmns_nb.graphs import load_graph, split_links
from dmns_nb.inputs import synth_graph
from dmns_nb.training import Config, fit

EPOCHS = 15


def command(folder, *more, processes=2):
    return [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(processes), *more, '-m', 'dmns_nb.scaling',
            '--dataset', str(folder/'toy.npz'), '--epochs', str(EPOCHS), '--batch', '501', '--out', str(folder), '--quiet']


def environment(**more): return {**os.environ, 'OMP_NUM_THREADS': '1', 'DMNS_SAVE_EVERY': '0', **more}


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    "A graph in a folder, and the history of one process on it; an odd batch, so that shares are unequal"
    folder = tmp_path_factory.mktemp('scaling')
    synth_graph(num_nodes=400, seed=3).save(folder/'toy.npz')
    torch.set_num_threads(1)
    run = fit(split_links(load_graph(folder/'toy.npz')), Config.compact(generated=.1, variational=False, epochs=EPOCHS, batch=501))
    return folder, run


def close(ours, theirs):
    assert len(ours) == len(theirs)
    # a swap of two nearly equal scores moves the validation MAP a little
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-4, atol=1e-3)


def children(pid): return [int(p) for p in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


@pytest.mark.skipif(sys.platform != 'linux', reason='finds the processes in /proc')
def test_two_processes_give_the_curve_of_one_even_if_one_is_killed(alone):
    folder, run = alone
    process = subprocess.Popen(command(folder, '--max-restarts', '1'), env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        checkpoint, deadline = folder/'toy-dmns-0.checkpoint', time.time() + 60
        while not checkpoint.exists() and time.time() < deadline: time.sleep(.01)
        first, second = children(process.pid)
        os.kill(second, signal.SIGKILL)
        killed = time.time()
        while first in children(process.pid) and time.time() < killed + 30: time.sleep(.02)
        waited = time.time() - killed
        _, errors = process.communicate(timeout=120)
    finally:
        for pid in (*children(process.pid), process.pid) if process.poll() is None else (): os.kill(pid, signal.SIGKILL)
    assert waited < 10
    assert 'has lost another one of this run' in errors
    assert process.returncode == 0, errors
    result = json.loads((folder/'toy-dmns-0.json').read_text())
    assert result['processes'] == 2
    close(result['history'], [list(x) for x in run.history])
    saved = torch.load(checkpoint, weights_only=True)
    assert saved['epoch'] == EPOCHS


def test_what_cannot_be_shared_is_said_in_one_line(tmp_path):
    synth_graph(num_nodes=400, seed=3).save(tmp_path/'toy.npz')
    done = subprocess.run([*command(tmp_path, processes=1), '--method', 'seal'], env=environment(), capture_output=True, text=True)
    assert done.returncode != 0 and 'dmns_nb.scaling: seal trains in one process' in done.stderr
