"""Every method runs on a GPU: tested on a stand-in (fake_cuda.py), in processes of their own.

The stand-in draws from the CPU's generator, so training must give the numbers of the CPU. There
the CPU takes the GPU's way through the code (`on_cpu` says no), which is the same algorithm.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

HERE = Path(__file__).resolve()
POINTS = dict(generated='points', generated_weight=.02)
VARIANTS = {
    **{m: dict(method=m) for m in (
        'boosted', 'pairs', 'dmns', 'gcn', 'gvae', 'arvga', 'pns', 'dns', 'mcns', 'twohop',
        'mixgcf', 'ahns', 'graphgan', 'kbgan', 'seal', 'scaled', 'pyg')},
    'gat': dict(method='gcn', encoder='gat'), 'sage': dict(method='gcn', encoder='sage'),
    'fifty steps': dict(T=50), 'batches': dict(batch_size=60),
    'fixed negatives': dict(method='gcn', fresh=False),
    'fixed candidates': dict(method='dns', fresh=False),
    'fixed pns': dict(method='pns', fresh=False),
    'seal, batches': dict(method='seal', batch_size=60),
    'common neighbours': dict(method='gcn', decoder='neighbors'),
    'distances': dict(method='gcn', decoder='distances'),
    'stopped by all nodes': dict(method='gcn', val_among='all'),
    'nodes, gat': dict(encoder='gat'), 'nodes, clouds': dict(variational=True),
    'unconditional': dict(conditional=False), 'one layer, silu': dict(film_layers=1, fcl='silu'),
    'laws': dict(generated='laws'), 'points': POINTS, 'chain': POINTS | dict(chain=True),
    'chain, not affine': POINTS | dict(chain=True, affine=False, diffusion_neighbors=3),
    'laws, unconditional': dict(generated='laws', conditional=False, noise='posterior'),
    'generated only': dict(samplers=('dmns',)), 'drawn neighbours': dict(diffusion_neighbors=3),
    'diffusion batch': dict(diffusion_batch=8, diffusion_steps=2, schedule='cosine', T=20),
    **{f'source {s}': dict(source=s) for s in ('moments', 'exact', 'pooled', 'noise')},
    'points, exact': POINTS | dict(source='exact'),
    'paper': dict(preset='paper', diffusion_steps=2, channels=(8, 8)),
    'released': dict(preset='released', diffusion_steps=2, channels=(8, 8)),
    'released gat': dict(preset='paper', method='gcn', encoder='gat', channels=(8, 8)),
    'released sage': dict(preset='paper', method='gcn', encoder='sage', channels=(8, 8)),
    'averaged in advance': dict(method='gcn', encoder='sign', batch_size=60),
    **{f'averaged in advance, {kind}': dict(encoder='sign', batch_size=60, generated=kind)
       for kind in ('nodes', 'points', 'laws')},
    'sampled neighbours': dict(num_neighbors=(3, 2), batch_size=60),
    **{f'{kind} {m}': dict(method=m, kind=kind) for kind in ('directed', 'bipartite')
       for m in ('boosted', 'gcn', 'pns', 'dns', 'dmns')}}


# ------------------------------------------------------------------ run by the stand-in's process
@cache
def small_split(kind=None):
    from dmns_nb import graph_from_edges, split_links, synth_graph
    graph = synth_graph(60, seed=2)
    if kind == 'directed': graph = graph_from_edges(graph.links, graph.features, directed=True)
    if kind == 'bipartite':
        links = graph.links[(graph.links % 2).sum(1) == 1]   # odd with even
        graph = graph_from_edges(links, graph.features, bipartite=[v % 2 for v in range(60)])
    return split_links(graph, num_val=.1, num_test=.1)


def config_of(settings, epochs=2):
    from dmns_nb import Config
    options = dict(channels=(8, 8), epochs=epochs, rounds=3, method='dmns', T=20) | settings
    if options['method'] == 'graphgan': options |= dict(patience=2, epochs=4)   # reach the game
    return Config.unchecked(**options)   # not every method reads all of them


def check_training(settings):
    "The history on the stand-in is that of the CPU, and scores can be computed afterwards"
    import torch
    from torch.utils._python_dispatch import _disable_current_modes
    from dmns_nb import closed_form, fit, kernels
    from dmns_nb.dmns import Diffusion
    settings = dict(settings)
    split, config = small_split(settings.pop('kind', None)), config_of(settings)
    with mock.patch.multiple(closed_form, on_cpu=lambda x: False), \
         mock.patch.multiple(kernels, on_cpu=lambda x: False), \
         mock.patch.object(Diffusion, 'first_steps', 3):
        with _disable_current_modes(): cpu = fit(split, config, device='cpu')
        gpu = fit(split, config, device='cuda')
    histories = [torch.tensor(run.history) for run in (gpu, cpu)]
    torch.testing.assert_close(*histories, rtol=2e-5, atol=1e-6)
    scores = [run.score_rows(split.test) for run in (gpu, cpu)]
    torch.testing.assert_close(*scores, rtol=1e-3, atol=1e-4)


def check_resuming():
    "A run that is interrupted after one epoch ends as the uninterrupted one"
    import torch
    from dmns_nb import fit
    from dmns_nb.methods import Training
    split = small_split()
    for method in ('dmns', 'graphgan'):
        config = config_of(dict(method=method), epochs=3)
        whole = fit(split, config, device='cuda')
        loop = Training.__iter__
        def one_epoch(self):
            yield next(loop(self))
            raise KeyboardInterrupt
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.object(Training, '__iter__', one_epoch):
                try: fit(split, config, f'{folder}/a', device='cuda', save_every=0)
                except KeyboardInterrupt: pass
            resumed = fit(split, config, f'{folder}/a', resume=True, device='cuda')
        assert resumed.history == whole.history, method
        assert torch.equal(resumed.score_rows(split.test), whole.score_rows(split.test)), method


def check_saving():
    "A run from the GPU is saved, loaded, and predicts on the CPU"
    import torch
    from dmns_nb import fit
    from dmns_nb.methods import Run
    from dmns_nb.predict import predict_links
    split = small_split()
    run = fit(split, config_of({}), device='cuda')
    with tempfile.TemporaryDirectory() as folder:
        run.save(f'{folder}/run')
        again = Run.load(f'{folder}/run', split)
    assert torch.equal(again.score_rows(split.test), run.score_rows(split.test))
    assert predict_links(run, k=3).equals(predict_links(again, k=3))
    assert len(run.recommend(0, k=3)) == 3 and 0 < run.metrics['map'].mean < 1
    assert run.negatives(0, 5, samples=4).shape == (4, 8)


def check_loop():
    "The generator in a loop of one's own, built on either device"
    import torch
    from dmns_nb import Generator
    graph = small_split().train_graph
    links = graph.edge_index.to('cuda')
    z = torch.randn(graph.num_nodes, 8, device='cuda', requires_grad=True)
    moved = Generator(graph.edge_index, graph.num_nodes, 8).to('cuda')
    for generator in (moved, Generator(links, graph.num_nodes, 8, queries=1.)):
        before = [p.detach().cpu().clone() for p in generator.denoiser.parameters()]
        generator.step(z)
        pairs, weight = generator(z)
        (weight*(z[pairs[0]]*z[pairs[1]]).sum(1)).sum().backward()
        assert pairs.device == weight.device == z.device and z.grad.abs().sum() > 0
        assert not graph.has_link(*pairs.cpu()).any()
        after = [p.detach().cpu() for p in generator.denoiser.parameters()]
        assert not any(torch.equal(a, b) for a, b in zip(before, after))   # it has learned


def check_dial():
    "Pictures of generated negatives while the model is on the GPU"
    import torch
    from dmns_nb.ddpm import make_schedule
    from dmns_nb.film import Denoiser
    from dmns_nb.negatives import HardnessDial
    graph = small_split().graph
    h = torch.randn(graph.num_nodes, 8, device='cuda')
    dial = HardnessDial(graph, h, Denoiser(8).to('cuda'), make_schedule().to('cuda'), walks=5)
    assert dial.points(0, 5).shape == (5, 8)


def check_planted():
    "A tensor that a sampler makes on the CPU is found"
    import torch
    from dmns_nb.predictor import Nodes, Uniform
    def careless(self, h, batch, score):
        return [Nodes(batch.v, torch.randint(self.num_nodes, batch.v.shape))]
    with mock.patch.object(Uniform, 'sample', careless): check_training(dict(method='gcn'))


def count_epoch(method, preset='default', epochs=2, **settings):
    "Kernels and waits per epoch on a graph of 1,000 nodes"
    import fake_cuda
    import torch
    from dmns_nb import Config, split_links, synth_graph
    from dmns_nb.methods import Training
    split = split_links(synth_graph(1000, seed=1))
    loop = iter(Training(split, Config(method, preset, **settings), torch.device('cuda')))
    next(loop)
    fake_cuda.gpu.reset()
    for _ in range(epochs): next(loop)
    return dict(kernels=fake_cuda.gpu.kernels.total()/epochs,
                waits=fake_cuda.gpu.waits.total()/epochs)


CHECKS = dict(resuming=check_resuming, saving=check_saving, loop=check_loop, dial=check_dial)
COUNTS = dict(gcn=('gcn',), dmns=('dmns',), paper=('dmns', 'paper'))


def answer(question):
    "What the process of the stand-in is asked: name → None, an error, or counts"
    import traceback
    variants = {name: lambda s=s: check_training(s) for name, s in VARIANTS.items()}
    counts = {name: lambda args=args: count_epoch(*args) for name, args in COUNTS.items()}
    todo = dict(checks=CHECKS, variants=variants | dict(planted=check_planted), counts=counts)
    found = {}
    for name, check in todo[question].items():
        try: found[name] = check()
        except Exception: found[name] = traceback.format_exc()
    return found


# ------------------------------------------------------------------ run by pytest
def ask(question):
    "The answer of a process in which the stand-in is installed"
    torch = pytest.importorskip('torch')
    if shutil.which('g++') is None: pytest.skip('the stand-in needs a C++ compiler, g++')
    if torch.version.cuda: pytest.skip('this torch has CUDA: the stand-in is for one without')
    done = subprocess.run([sys.executable, '-W', 'ignore', str(HERE), question], text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_method_is_tried():
    from dmns_nb.settings import methods
    assert set(methods) <= set(VARIANTS)


def test_an_epoch_has_few_kernels_and_waits():
    found = ask('counts')   # as chapter 11 does
    most = dict(gcn=(175, 2), dmns=(400, 3), paper=(4300, 2))
    assert found.keys() == most.keys()
    for name, (kernels, waits) in most.items():
        counted = found[name]
        assert isinstance(counted, dict), counted   # an error
        assert counted['kernels'] <= kernels and counted['waits'] <= waits, (name, counted)


def test_training_on_the_stand_in_gives_the_numbers_of_the_cpu():
    found = ask('variants')
    assert 'same device' in found.pop('planted')   # a tensor on the wrong device is found
    failed = {name: error for name, error in found.items() if error}
    assert not failed, '\n\n'.join(f'{name}: {error}' for name, error in failed.items())


def test_resuming_saving_and_own_loops():
    failed = {name: error for name, error in ask('checks').items() if error}
    assert not failed, '\n\n'.join(f'{name}: {error}' for name, error in failed.items())


if __name__ == '__main__':
    sys.path.insert(0, str(HERE.parent))
    import fake_cuda
    fake_cuda.install(shared=sys.argv[1] != 'checks')
    import torch
    torch.set_num_threads(1)
    print(json.dumps(answer(sys.argv[1])))
