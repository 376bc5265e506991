"The shape of the package: imports go one way, training imports nothing, resuming is exact."
import ast
import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dmns_nb.generator import Generator
from dmns_nb.graphs import synth_graph
from dmns_nb.methods import Training, fit
from dmns_nb.settings import Config, methods
from dmns_nb.splits import split_links
from dmns_nb.training import State, progress

ROOT = Path(__file__).resolve().parent.parent
ORDER = '''checks link_tables feature_tables sides files kernels disk drawing trees
    graphs released hiding saved splits ranking encoders predictor training
    ddpm film negatives positivity dmns closed_form generator
    samplers rivals adversarial subgraphs directions pairs pair_decoders
    settings checkpoints neighborhoods disk_pairs minibatch parts methods
    candidates disk_candidates predict runs records scale processes quality
    experiments reproduction tables figures terminal demo commands pages
    __main__ __init__'''.split()


def imported(path):
    "Modules of the package that a module imports, anywhere in it"
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if not isinstance(node, ast.ImportFrom): continue
        if node.level or (node.module or '').startswith('dmns_nb'):
            name = (node.module or '').removeprefix('dmns_nb').removeprefix('.')
            yield from [name] if name else [alias.name for alias in node.names]


def upward_edges(folder):
    "Imports that point down the list, or sideways"
    for path in sorted(Path(folder).glob('*.py')):
        for name in imported(path):
            if name in ('__version__',): continue    # of the package itself, which loads nothing
            if path.stem not in ORDER or name not in ORDER: yield f'{path.stem} → {name}: unknown'
            elif ORDER.index(name) >= ORDER.index(path.stem): yield f'{path.stem} → {name}'


def test_imports_go_one_way():
    assert not [edge for edge in upward_edges(ROOT/'dmns_nb') if '_modidx' not in edge]
    modules = {p.stem for p in (ROOT/'dmns_nb').glob('*.py')} - {'_modidx'}
    assert modules == set(ORDER)


def test_an_import_the_wrong_way_is_found(tmp_path):
    (tmp_path/'graphs.py').write_text('from .checks import InputError\nfrom .splits import Split\n')
    (tmp_path/'checks.py').write_text('def f():\n    from dmns_nb import graphs\n')
    assert list(upward_edges(tmp_path)) == ['checks → graphs', 'graphs → splits']


def test_nothing_is_imported_while_fit_runs():
    code = '''if True:
        import sys, torch
        from dmns_nb import Config, fit, split_links, synth_graph
        from dmns_nb.settings import methods
        torch.set_num_threads(1)
        split = split_links(synth_graph())
        before = {name for name in sys.modules if name.startswith('dmns_nb')}
        config = Config('dmns', epochs=1, channels=(8, 8))
        for method in methods: fit(split, config, method=method)
        print(*({n for n in sys.modules if n.startswith('dmns_nb')} - before))'''
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ''


class Killed(Exception):
    "Stands in for a kill"


def killed_after(epochs, monkeypatch):
    "Let the loop of `fit` end with an error after so many epochs"
    def loop(self):
        for count, state in enumerate(Training.whole_loop(self), 1):
            yield state
            if count == epochs: raise Killed
    monkeypatch.setattr(Training, 'whole_loop', Training.__iter__, raising=False)
    monkeypatch.setattr(Training, '__iter__', loop)


@pytest.mark.parametrize('method', [m for m in methods if m != 'pairs'])   # which has no epochs
def test_resuming_at_every_epoch_gives_the_uninterrupted_result(method, tmp_path, monkeypatch):
    torch.set_num_threads(1)
    split = split_links(synth_graph(60, seed=2), num_val=.1, num_test=.1)
    config = Config('dmns', epochs=4, patience=2, channels=(8, 8)).replace(method=method)
    whole = fit(split, config)
    for epoch in range(1, 4):
        path = tmp_path/f'{epoch}.checkpoint'
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_after(epoch, patch)
            fit(split, config, path, save_every=0)
        resumed = fit(split, config, path, resume=True)
        assert resumed.history == whole.history and resumed.best_epoch == whole.best_epoch
        assert torch.equal(resumed.score_rows(split.test), whole.score_rows(split.test))


def test_a_generator_can_be_saved_and_moved():
    torch.manual_seed(0)
    graph, z = synth_graph(), torch.randn(120, 8)
    make = lambda: Generator(graph.edge_index, graph.num_nodes, channels=8)
    trained, other = make(), make()
    trained.step(z)
    other.load_state_dict(trained.state_dict())
    assert other.started
    drawn = []
    for generator in (trained, other):
        torch.manual_seed(1)
        generator.queries = torch.arange(120)
        drawn.append(generator(z))
    assert torch.equal(drawn[0][0], drawn[1][0]) and torch.equal(drawn[0][1], drawn[1][1])
    moved = other.to('meta')          # a device that every machine has
    assert moved is other
    tensors = [*other.parameters(), *other.buffers()]
    assert tensors and all(tensor.is_meta for tensor in tensors)


def test_progress_without_validation_shows_the_loss_only(monkeypatch, capsys):
    clock = itertools.count(step=11)
    monkeypatch.setattr('time.perf_counter', lambda: next(clock))
    monkeypatch.setattr('dmns_nb.checks.can_show_progress', lambda: False)
    states = [State(epoch=1, history=[(1., math.nan)]), State(epoch=2, history=[(1., .5)])]
    for _ in progress(states, 2, quiet=False, label='seed 2 of 5'): pass
    first, second = capsys.readouterr().err.splitlines()
    assert first == 'seed 2 of 5, epoch 1: loss 1.000'
    assert second.startswith('seed 2 of 5, epoch 2: loss 1.000, validation MAP 0.500')
