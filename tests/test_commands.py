"The commands as a user types them."
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import book
import numpy as np
import pandas as pd
import pytest
import torch

from dmns_nb.graphs import synth_graph

HEAVY = ('torch', 'matplotlib', 'pandas', 'torch_geometric', 'sklearn')


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def script(command, args, cwd, encoding):
    "What a child process does: run the installed script, and return its exit code"
    os.chdir(cwd)
    sys.argv = [command, *args]
    sys.stdout = open(1, 'w', encoding=encoding, closefd=False)
    sys.stderr = open(2, 'w', encoding=encoding, errors='backslashreplace', closefd=False)
    try: runpy.run_path(shutil.which(command), run_name='__main__')
    except SystemExit as e: return e.code or 0
    finally: sys.stdout.flush(), sys.stderr.flush()


def forked(command, *args, cwd='.', encoding='utf-8', check=False, preexec_fn=None):
    "As `run`, in a fork of this process: torch is imported already, which saves two seconds"
    import dmns_nb.predict  # noqa: F401
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder)/name for name in ('stdout', 'stderr')]
        child = os.fork()
        if not child:
            code = 1
            try:
                for number, file in enumerate(files, 1):
                    os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY), number)
                if preexec_fn: preexec_fn()
                code = script(command, args, cwd, encoding)
            finally: os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stdout, stderr = (file.read_text(encoding) for file in files)
    assert not (check and code), stderr
    return SimpleNamespace(returncode=code, stdout=stdout, stderr=stderr)


def test_a_fork_is_as_good_as_a_new_process(tmp_path):
    for command in (['dmns_train', '--set', 'lr'], ['dmns_predict', 'none.run']):
        new, fork = run(*command, cwd=tmp_path), forked(*command, cwd=tmp_path)
        assert (new.returncode, new.stdout) == (fork.returncode, fork.stdout)
        assert new.stderr.split() == fork.stderr.split()   # usage: as wide as the terminal


def test_names_at_the_top_are_enough_to_load_and_split():
    code = ("from dmns_nb import load_graph, split_links; "
            "s=split_links(load_graph('debian')); s.check(); print(s)")
    done = run(sys.executable, '-c', code, check=True)
    assert done.stdout.startswith('debian split (seed 0): 10,476 training links')
    assert done.stderr == ''


@pytest.mark.parametrize('module', ['dmns_nb', 'dmns_nb.commands'])
def test_importing_loads_nothing_heavy(module):
    code = f'import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])'
    assert run(sys.executable, '-c', code, check=True).stdout == '[]\n'


def test_demo(tmp_path):
    done = forked('dmns_demo', '--epochs', '3', '--out', str(tmp_path/'d.png'), check=True)
    assert 'DMNS − GCN, weighted' in done.stdout and 'MAP' in done.stdout
    assert (tmp_path/'d.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize('command, option', [
    ('dmns_demo', '--epochs'), ('dmns_train', '--predictions'), ('dmns_train', '--set'),
    ('dmns_train', '--settings'), ('dmns_train', '--no_refit'), ('dmns_predict', '--pairs'),
    ('dmns_bench', '--sizes'), ('dmns_reproduce', '--figures')])
def test_help(command, option):
    assert option in run(command, '--help', check=True).stdout


def test_help_takes_no_time():
    start = book.children_seconds()
    assert 'usage: dmns_train' in run('dmns_train', '--help', check=True).stdout
    assert book.children_seconds() - start < 2   # of the processor, whatever else it is at


@pytest.mark.parametrize('command', [
    'dmns_demo', 'dmns_train', 'dmns_predict', 'dmns_bench', 'dmns_reproduce'])
def test_help_loads_nothing_heavy(command):
    done = run(sys.executable, '-X', 'importtime', shutil.which(command), '--help', check=True)
    loaded = {line.split('|')[-1].strip() for line in done.stderr.splitlines()}
    assert f'usage: {command}' in done.stdout and 'dmns_nb.commands' in loaded
    assert not loaded & set(HEAVY)


def test_reproduce_as_the_book_writes_it(tmp_path):
    given = ['psi', 'table3', '--datasets=cora', '--seeds', '1', '--results', str(tmp_path),
             '--dry-run']
    for done in (forked('dmns_reproduce', *given, check=True),
                 run(sys.executable, '-m', 'dmns_nb', 'reproduce', *given, check=True)):
        assert done.stdout.splitlines()[0] == '5 runs are missing.'
        assert 'cora dmns sage seed 0' in done.stdout


def test_figures_without_results(tmp_path):
    forked('dmns_reproduce', '--results', str(tmp_path/'none'),
           '--figures', str(tmp_path/'figures'), check=True)
    assert (tmp_path/'figures'/'psi.svg').is_file()
    assert len(list((tmp_path/'figures').glob('*.svg'))) == 13


@pytest.mark.parametrize('command, given, message', [
    ('dmns_train', ['--dataset', 'debain'],
     "no dataset is called 'debain'; did you mean 'debian'?"),
    ('dmns_reproduce', ['table3', '--datasets', 'coar'],
     "a dataset cannot be 'coar'; did you mean 'cora'?"),
    ('dmns_demo', ['--out', 'demo.pgn'],
     "the ending of the picture cannot be '.pgn'; did you mean '.png'?")])
def test_user_errors_are_one_line_and_exit_code_2(command, given, message):
    done = forked(command, *given)
    assert done.returncode == 2
    assert done.stderr == f'{command}: {message}\n'


def test_a_wrong_device_of_several_processes():
    done = run(sys.executable, '-m', 'dmns_nb.processes', '--device', 'tpu')
    assert done.returncode == 2
    assert done.stderr == "dmns_nb.processes: device cannot be 'tpu'; did you mean 'cpu'?\n"


@pytest.mark.parametrize('given, message', [
    (['T=ten'], "T must be a whole number, not 'ten'"),
    (['lr'], "a setting is given as NAME=VALUE, not 'lr'"),
    (['T=100', 'patiense=3'], "a setting cannot be 'patiense'; did you mean 'patience'?"),
    (['lr=-1'], 'lr must be greater than 0, not -1.0')])
def test_wrong_settings_are_one_line_and_exit_code_2(given, message):
    done = forked('dmns_train', '--set', *given)
    assert done.returncode == 2 and done.stderr == f'dmns_train: {message}\n'


def test_settings_are_listed():
    from dmns_nb.settings import setting_fields
    lines = forked('dmns_train', '--settings', check=True).stdout.splitlines()
    assert [line.split()[1] for line in lines] == list(setting_fields)


def test_settings_are_set(tmp_path):
    synth_graph(num_nodes=400, seed=3).save(tmp_path/'toy.npz')
    forked('dmns_train', '--dataset', 'toy.npz', '--method', 'dmns', '--epochs', '2', '--quiet',
        '--json', 'r.json', '--set', 'T=100', 'lr=.02', 'channels=64,32', 'popularity=false',
        cwd=tmp_path, check=True)
    config = json.loads((tmp_path/'r.json').read_text())[0]['config']
    assert config['T'] == 100 and config['lr'] == .02 and config['epochs'] == 2
    assert config['channels'] == [64, 32] and config['popularity'] is False


def train(folder, *more):
    return ['dmns_train', '--dataset', str(folder.parent/'toy.npz'), '--preset', 'compact',
            '--epochs', '120', '--quiet', '--out', str(folder), '--json', str(folder/'r.json'),
            *more]


def test_killed_and_resumed_ends_like_uninterrupted(tmp_path):
    synth_graph(num_nodes=400, seed=3).save(tmp_path/'toy.npz')
    whole, killed = tmp_path/'whole', tmp_path/'killed'
    whole.mkdir(), killed.mkdir()
    forked(*train(whole), check=True)
    process = subprocess.Popen(train(killed), env={**os.environ, 'DMNS_SAVE_EVERY': '0'},
                               stdout=subprocess.DEVNULL)
    deadline = time.time() + 60
    while not list(killed.glob('*.checkpoint*')) and time.time() < deadline: time.sleep(.02)
    time.sleep(.3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (killed/'r.json').exists()
    forked(*train(killed, '--resume'), check=True)
    first, second = (json.loads((f/'r.json').read_text())[0] for f in (whole, killed))
    for key in ('metrics', 'epochs', 'best_epoch', 'validation'): assert first[key] == second[key]


NAMES = [f'{a}{b}' for a in 'bdfglmnprstv' for b in ('ada', 'eno', 'imi', 'olo', 'una')]


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    "A folder with two tables, a run, and the run trained again on all links, with predictions"
    folder = tmp_path_factory.mktemp('trained')
    graph = synth_graph(60)
    links = [f'{NAMES[v]},{NAMES[u]}' for v, u in graph.links.tolist()]
    (folder/'links.csv').write_text('\n'.join(links) + '\n')
    features = zip(NAMES, graph.features.to_dense().tolist())
    rows = [','.join(map(str, [name, *row])) for name, row in features]
    (folder/'features.csv').write_text('\n'.join(rows) + '\n')
    done = run('dmns_train', '--dataset', 'links.csv', '--features', 'features.csv', '--quiet',
               '--epochs', '3', '--out', 'runs', '--predict', '3', '--embeddings', 'h.npz',
               cwd=folder)
    assert done.returncode == 0 and 'Training again on all links' in done.stdout, done.stderr
    return folder


def saved(folder, ending):
    "The name of the saved run that ends so"
    [file] = (folder/'runs').glob(f'links-boosted-gcn-default-*-{ending}')
    return f'runs/{file.name}'


ALL, PART = '0-all.run', '0.run'


def predict(folder, *args, file=ALL):
    name = file if '/' in file else saved(folder, file)
    return forked('dmns_predict', name, *args, cwd=folder)


def test_a_saved_run_predicts_the_same_without_training(trained):
    done = predict(trained, '--top', '3', '--predictions', 'again.csv', '--embeddings', 'h2.npz')
    assert done.returncode == 0, done.stderr
    first, again = (pd.read_csv(trained/name) for name in ('predictions.csv', 'again.csv'))
    assert list(first) == ['node', 'rank', 'predicted', 'score', 'probability', 'reason']
    pd.testing.assert_frame_equal(first, again)
    with np.load(trained/'h.npz') as a, np.load(trained/'h2.npz') as b:
        assert a['names'].tolist() == NAMES and (a['embeddings'] == b['embeddings']).all()
    assert first.probability.between(0, 1).all() and first.reason.notna().all()


def test_predictions_of_nodes_and_pairs_are_printed(trained):
    done = predict(trained, '--nodes', 'bada', 'tuna', '--top', '2')
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ['bada', '1'], ['bada', '2'], ['tuna', '1'], ['tuna', '2']], done.stderr
    first = pd.read_csv(trained/'predictions.csv').query('node == "bada"')
    (trained/'pairs.csv').write_text('a,b\n' + ''.join(f'bada,{u}\n' for u in first.predicted))
    done = predict(trained, '--pairs', 'pairs.csv', '--predictions', 'scored.csv')
    assert done.stdout == '3 pairs are in scored.csv\n', done.stderr
    scored = pd.read_csv(trained/'scored.csv')
    assert np.allclose(scored.score, first.score, atol=1e-4)
    assert list(scored.reason) == list(first.reason)


def test_a_run_on_a_part_of_the_links_finds_its_split(trained):
    [split] = (trained/'runs').glob('*.split.npz')
    assert predict(trained, '--nodes', 'bada', file=PART).returncode == 0
    moved = split.rename(trained/'moved.npz')
    done = predict(trained, '--nodes', 'bada', file=PART)
    assert done.returncode == 2 and 'the split of' in done.stderr
    assert done.stderr.count('\n') == 1
    done = predict(trained, '--nodes', 'bada', '--split', 'moved.npz', file=PART)
    assert done.returncode == 0, done.stderr
    moved.rename(split)


def test_a_folder_can_be_moved(trained, tmp_path):
    shutil.copytree(trained, tmp_path/'elsewhere')
    assert predict(tmp_path/'elsewhere', '--nodes', 'bada').returncode == 0
    (tmp_path/'elsewhere'/'links.csv').unlink()
    done = predict(tmp_path/'elsewhere', '--nodes', 'bada')
    assert done.returncode == 2 and 'is not there: name another dataset' in done.stderr
    done = predict(tmp_path/'elsewhere', '--nodes', 'bada', '--dataset', str(trained/'links.csv'))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize('file', ['links.csv', 'features.csv'])
def test_a_graph_that_has_changed_is_refused(trained, tmp_path, file):
    shutil.copytree(trained, tmp_path/'changed')
    lines = (tmp_path/'changed'/file).read_text().splitlines()
    if file == 'links.csv': lines = lines[:-1]
    else: lines[0] = lines[0][:-3] + '7.5'
    (tmp_path/'changed'/file).write_text('\n'.join(lines) + '\n')
    for run_file in (ALL, PART):
        done = predict(tmp_path/'changed', '--nodes', 'bada', file=run_file)
        assert done.returncode == 2 and 'another graph' in done.stderr, done
        assert done.stderr.count('\n') == 1


@pytest.mark.parametrize('name, value', [
    ('decoder.trees.feature', 99), ('decoder.trees.feature', -1),
    ('decoder.trees.excluded', 2**16), ('decoder.trees.threshold', torch.nan),
    ('decoder.trees.fitted', False), ('encoder.layers.0.linear.weight', torch.inf)])
def test_a_tampered_run_is_refused(trained, tmp_path, name, value):
    parts = torch.load(trained/saved(trained, ALL), weights_only=True)
    parts['weights'][name].view(-1)[0] = value
    torch.save(parts, trained/'runs'/'tampered.run')
    done = predict(trained, '--nodes', 'bada', file='runs/tampered.run')
    assert done.returncode == 2 and 'do not fit its settings: train again' in done.stderr


@pytest.mark.parametrize('args, message', [
    (['--nodes', 'bda'], "links has no node named 'bda'; the nearest name is 'bada'"),
    (['--nodes', '3'], "links has no node named '3'"),
    (['--nodes', 'bada', '--pairs', 'links.csv'], '--pairs and --nodes contradict each other'),
    (['--pairs', 'none.csv'], 'there is no file none.csv'),
    (['--nodes', 'bada', '--top', '60'], 'must lie between 1 and 59, not 60'),
    (['--predictions', 'links.csv'], 'links.csv is an input: write to another file'),
    (['--predictions', 'RUN'], 'is an input: write to another file'),
    (['--predictions', 'p.csv', '--embeddings', 'p.csv'], 'p.csv is named for two outputs'),
    (['--nodes'], '--nodes names no nodes'),
    (['--nodes', 'bada', '--top', '-1'], 'must lie between 1 and 59, not -1'),
    (['--embeddings', 'features.csv'], 'features.csv is an input: write to another file'),
    (['--embeddings', 'h.txt'], "the ending of the embeddings cannot be '.txt'"),
    (['--predictions', 'none/p.csv'], 'there is no folder to write none/p.csv to')])
def test_wrong_arguments_of_predict_are_one_line_and_exit_code_2(trained, args, message):
    done = predict(trained, *(saved(trained, ALL) if arg == 'RUN' else arg for arg in args))
    assert done.returncode == 2 and done.stderr.startswith('dmns_predict: ')
    assert message in done.stderr and done.stderr.count('\n') == 1
    assert (trained/'links.csv').read_text().startswith('bada,')


def test_without_refit_the_hidden_links_are_not_used(tmp_path):
    synth_graph(60).save(tmp_path/'toy.npz')
    command = ['dmns_train', '--dataset', 'toy.npz', '--epochs', '2', '--predict', '2', '--quiet']
    done = forked(*command, '--no-refit', cwd=tmp_path, check=True)
    part = pd.read_csv(tmp_path/'predictions.csv')
    again = forked(*command, cwd=tmp_path, check=True)
    assert 'Training again' in again.stdout and 'Training again' not in done.stdout
    assert not np.allclose(part.score, pd.read_csv(tmp_path/'predictions.csv').score)


def test_a_graph_of_34_nodes(tmp_path):
    import networkx
    edges = networkx.karate_club_graph().edges
    (tmp_path/'karate.csv').write_text(''.join(f'{u},{v}\n' for u, v in edges))
    done = forked('dmns_train', '--dataset', 'karate.csv', '--preset', 'compact', '--epochs', '2',
               '--predict', '3', '--quiet', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'predicted links are in predictions.csv' in done.stdout, done.stderr


@pytest.fixture
def toy(tmp_path):
    "A folder with a table of links"
    links = [f'{v},{u}' for v, u in synth_graph(60).links.tolist()]
    (tmp_path/'links.csv').write_text('\n'.join(links) + '\n')
    return tmp_path


SHORT = ['dmns_train', '--method', 'gcn', '--preset', 'compact', '--quiet']


def trained_runs(folder, *more):
    done = forked(*SHORT, '--out', str(folder/'runs'), *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {file.name for file in (folder/'runs').glob('*.run')}


def test_other_graphs_and_settings_do_not_replace_a_run(toy):
    (toy/'other').mkdir()
    lines = (toy/'links.csv').read_text().splitlines()[:-3]
    (toy/'other'/'links.csv').write_text('\n'.join(lines) + '\n')
    links, other = ['--dataset', 'links.csv', '--epochs', '1'], ['--dataset', 'other/links.csv']
    other += ['--epochs', '1']
    first = trained_runs(toy, *links)
    for count, more in enumerate((other, [*links, '--lr', '.1'], [*links, '--split-seed', '5']), 2):
        assert len(trained_runs(toy, *more)) == count
    same = trained_runs(toy, *links)
    assert len(same) == 4 and first <= same


def test_a_saved_split_can_be_used_again(toy):
    more = ['--dataset', 'links.csv', '--epochs', '1']
    trained_runs(toy, *more, '--json', 'a.json', '--split-seed', '7', '--candidates', '5')
    [split] = (toy/'runs').glob('*.split.npz')
    forked(*SHORT, *more, '--json', 'b.json', '--split', str(split), cwd=toy, check=True)
    first, again = (json.loads((toy/f'{name}.json').read_text())[0] for name in 'ab')
    assert first['metrics'] == again['metrics']


@pytest.mark.parametrize('option', ['--json', '--predictions', '--embeddings', '--log'])
def test_no_output_replaces_an_input(toy, option):
    before = (toy/'links.csv').read_text()
    done = forked(*SHORT, '--dataset', 'links.csv', '--predict', '1', '--epochs', '1', option,
               './links.csv', cwd=toy)
    assert done.returncode == 2 and (toy/'links.csv').read_text() == before
    assert done.stderr == 'dmns_train: ./links.csv is an input: write to another file\n'


@pytest.mark.parametrize('command, option', [
    (SHORT, '--json'), (SHORT, '--log'), (SHORT, '--out'), (SHORT, '--embeddings'),
    (['dmns_bench'], '--json'), (['dmns_demo'], '--out'),
    (['dmns_reproduce', 'psi'], '--results'), (['dmns_reproduce'], '--figures')])
def test_what_cannot_be_written_is_refused_before_training(command, option, tmp_path):
    name = '/proc/none' + {'--embeddings': '.npz', '--log': '.csv'}.get(option, '.png')
    done = forked(*command, option, name, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == '', done.stdout
    assert f'{name} cannot be written' in done.stderr and done.stderr.count('\n') == 1


def full_disk():
    "For a child process: files cannot grow beyond 20 KB"
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))


def test_a_full_disk_leaves_the_old_checkpoint(toy):
    command = [*SHORT, '--dataset', 'links.csv', '--epochs', '3', '--out', 'runs']
    forked(*command, cwd=toy, check=True)
    before = {file.name: file.read_bytes() for file in (toy/'runs').iterdir()}
    done = forked(*command, cwd=toy, preexec_fn=full_disk)
    assert done.returncode == 2 and done.stderr.count('\n') == 1
    assert 'could not be written' in done.stderr and 'Traceback' not in done.stderr
    assert {file.name: file.read_bytes() for file in (toy/'runs').iterdir()} == before


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_says_how_to_resume(toy, number):
    command = [*SHORT, '--dataset', 'links.csv', '--out', 'runs', '--epochs', '100000',
               '--set', 'patience=100000', 'min_epochs=100000']
    process = subprocess.Popen([*command, '--log', 'log.csv'], cwd=toy, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.time() + 120
    while not (toy/'log.csv').exists() or (toy/'log.csv').read_text().count('\n') < 4:
        assert time.time() < deadline
        time.sleep(.05)
    process.send_signal(number)
    assert process.wait(60) == 130
    said = process.stderr.read()
    assert said.startswith('dmns_train: stopped after epoch ') and said.count('\n') == 1
    assert said.endswith('--resume added to the same command continues\n')
    [file] = (toy/'runs').iterdir()
    state = torch.load(file, weights_only=True)['state']
    assert f'stopped after epoch {state["epoch"]}, saved in runs/{file.name}' in said


def test_nothing_to_resume_is_said(toy):
    done = forked(*SHORT, '--dataset', 'links.csv', '--epochs', '1', '--out', 'runs', '--resume',
               cwd=toy)
    assert done.returncode == 0 and 'nothing to continue' in done.stdout


def test_an_ascii_terminal_shows_every_command(tmp_path):
    env = {**os.environ, 'PYTHONIOENCODING': 'ascii'}
    (tmp_path/'Größe.csv').write_text(''.join(
        f'é{v},é{u}\n' for v, u in synth_graph(60).links.tolist()))
    train = [*SHORT, '--dataset', 'Größe.csv', '--epochs', '1', '--seeds', '2', '--out', 'r']
    done = forked(*train, cwd=tmp_path, encoding='ascii')
    assert done.returncode == 0 and done.stdout.isascii(), done.stderr
    for command in (['dmns_train', '--help'], ['dmns_train', '--settings'],
                    ['dmns_demo', '--epochs', '1', '--out', 'd.png'],
                    ['dmns_reproduce', '--list'], ['dmns_reproduce', 'table2', '--dry-run']):
        done = forked(*command, cwd=tmp_path, encoding='ascii')
        assert done.returncode == 0 and done.stdout.isascii(), (command, done.stderr)
    [file] = (tmp_path/'r').glob('*-0.run')
    done = forked('dmns_predict', str(file), '--nodes', 'é1', cwd=tmp_path, encoding='ascii')
    assert done.returncode == 0 and '?1' in done.stdout, done.stderr
    done = run('dmns_predict', str(file), '--nodes', 'è1', cwd=tmp_path, env=env)
    assert done.returncode == 2 and 'Traceback' not in done.stderr


def test_names_do_not_control_the_terminal(tmp_path):
    escape = '\x1b[2J'
    name = f'a{escape}b.csv'
    (tmp_path/name).write_text(''.join(
        f'{escape}{v},{escape}{u}\n' for v, u in synth_graph(60).links.tolist()))
    done = forked(*SHORT, '--dataset', name, '--epochs', '1', '--out', 'r', cwd=tmp_path)
    assert done.returncode == 0 and '\x1b' not in done.stdout + done.stderr, done.stderr
    [file] = (tmp_path/'r').glob('*-0.run')
    for node in (f'{escape}1', f'{escape}x'):
        done = forked('dmns_predict', str(file), '--nodes', node, cwd=tmp_path)
        assert '\x1b' not in done.stdout + done.stderr and '\\x1b[2J' in done.stdout + done.stderr


def test_no_warning_is_an_error(toy):
    code = ("from dmns_nb.commands import dmns_train\n"
            "for method in ('boosted', 'dmns', 'seal'):\n"
            "    dmns_train('links.csv', method=method, epochs=1, quiet=True)")
    done = run(sys.executable, '-W', 'error', '-c', code, cwd=toy)
    assert done.returncode == 0 and done.stdout.count('by chance') == 3, done.stderr


@pytest.mark.parametrize('name, lines, more, help', [
    ('ten', [f'{v},{v + 1}' for v in range(9)], [], '--num-val'),
    ('star', [f'0,{v}' for v in range(1, 40)], [], '--candidates'),
    ('complete', [f'{v},{u}' for v in range(12) for u in range(v)], [], '--candidates'),
    ('ten', [f'{v},{v + 1}' for v in range(9)],
     ['--num-val', '.2', '--num-test', '.2', '--candidates', '3'], None)])
def test_small_and_full_graphs(tmp_path, name, lines, more, help):
    (tmp_path/f'{name}.csv').write_text('\n'.join(lines) + '\n')
    done = forked(*SHORT, '--dataset', f'{name}.csv', '--epochs', '1', *more, cwd=tmp_path)
    assert done.returncode == (2 if help else 0), done.stderr
    if help: assert help in done.stderr and done.stderr.count('\n') == 1


def test_the_version():
    from dmns_nb import __version__
    for command in (['dmns_train'], ['dmns_predict'], [sys.executable, '-m', 'dmns_nb'],
                    [sys.executable, '-m', 'dmns_nb', 'bench']):
        assert run(*command, '--version', check=True).stdout == f'dmns_nb {__version__}\n'
