"The commands as a user types them."
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dmns_nb.inputs import synth_graph


def test_import_is_enough_to_load_and_split():
    code = "from dmns_nb.graphs import load_graph, split_links; s=split_links(load_graph('debian')); s.check(); print(s)"
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith('debian split (seed 0): 10,476 links') and done.stderr == ''


def test_demo(tmp_path):
    done = subprocess.run(['dmns_demo', '--epochs', '3', '--out', str(tmp_path/'d.png')], capture_output=True, text=True, check=True)
    assert 'DMNS − GVAE' in done.stdout and 'MAP' in done.stdout
    assert (tmp_path/'d.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize('command, option', [('dmns_demo', '--epochs'), ('dmns_train', '--predictions'), ('dmns_bench', '--sizes'),
                                             ('dmns_reproduce', '--figures')])
def test_help(command, option):
    done = subprocess.run([command, '--help'], capture_output=True, text=True, check=True)
    assert option in done.stdout


@pytest.mark.parametrize('command', [['dmns_reproduce'], [sys.executable, '-m', 'dmns_nb', 'reproduce']])
def test_reproduce_as_the_book_writes_it(command, tmp_path):
    done = subprocess.run([*command, 'psi', 'table3', '--datasets=cora', '--seeds', '1', '--results', str(tmp_path), '--dry-run'],
                          capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == '7 runs are missing.' and 'cora dmns sage seed 0' in done.stdout


def test_figures_without_results(tmp_path):
    subprocess.run(['dmns_reproduce', '--results', str(tmp_path/'none'), '--figures', str(tmp_path/'figures')], capture_output=True, check=True)
    assert (tmp_path/'figures'/'psi.svg').is_file()


def test_user_errors_are_one_line_and_exit_code_2():
    done = subprocess.run(['dmns_train', '--dataset', 'debain'], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "dmns_train: no dataset is called 'debain'; did you mean 'debian'?\n"


def train(folder, *more):
    return ['dmns_train', '--dataset', str(folder.parent/'toy.npz'), '--preset', 'compact', '--epochs', '120', '--quiet',
            '--out', str(folder), '--json', str(folder/'r.json'), *more]


def test_killed_and_resumed_ends_like_uninterrupted(tmp_path):
    synth_graph(num_nodes=400, seed=3).save(tmp_path/'toy.npz')
    whole, killed = tmp_path/'whole', tmp_path/'killed'
    whole.mkdir(), killed.mkdir()
    subprocess.run(train(whole), check=True, capture_output=True)
    process = subprocess.Popen(train(killed), env={**os.environ, 'DMNS_SAVE_EVERY': '0'}, stdout=subprocess.DEVNULL)
    deadline = time.time() + 60
    while not list(killed.glob('*.checkpoint*')) and time.time() < deadline: time.sleep(.02)
    time.sleep(.3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (killed/'r.json').exists()
    subprocess.run(train(killed, '--resume'), check=True, capture_output=True)
    first, second = (json.loads((f/'r.json').read_text())[0] for f in (whole, killed))
    for key in ('metrics', 'epochs', 'best_epoch', 'validation'): assert first[key] == second[key]


def test_a_graph_of_34_nodes(tmp_path):
    import networkx
    (tmp_path/'karate.csv').write_text(''.join(f'{u},{v}\n' for u, v in networkx.karate_club_graph().edges))
    command = ['dmns_train', '--dataset', 'karate.csv', '--preset', 'compact', '--epochs', '2', '--predict', '3', '--quiet']
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and 'predicted links are in predictions.csv' in done.stdout, done.stderr
