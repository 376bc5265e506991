"Every point in which the presets `paper` and `released` follow the released program."
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dmns_nb.ddpm import make_schedule, sigmas
from dmns_nb.encoders import Encoder, ReleasedGAT, ReleasedSAGE
from dmns_nb.film import Denoiser
from dmns_nb.graphs import synth_graph
from dmns_nb.methods import Training
from dmns_nb.negatives import levels_of
from dmns_nb.parts import build
from dmns_nb.settings import Config, methods
from dmns_nb.splits import split_links
from dmns_nb.training import State

SPLIT = split_links(synth_graph(), num_val=.1, num_test=.1)
PAPER, RELEASED = Config(preset='paper'), Config(preset='released')


@pytest.mark.parametrize('config', [PAPER, RELEASED], ids=['paper', 'released'])
def test_settings_of_both(config):
    expected = dict(
        architecture='released', channels=(32, 32), norm='row', unit='all', bias=False, dropout=.1,
        temperature=1., popularity=False, fresh=False, rows='released', node_labels=False,
        correct_popularity=False, prior_weight=.5, generated='points', generated_weight=1.,
        uniform_weight=1., chain=False, affine=True, level_weights=(1., .9, .8, .7), T=50,
        schedule='linear',
        noise='posterior', film_layers=2, fcl='silu', time_encoding='released', conditional=True,
        diffusion_lr=.01, diffusion_decay=1e-4, lr=.01, weight_decay=1e-4, reduction='mean',
        epochs=1000, patience=50, min_epochs=0, keep_last=True, val_candidates=0, batch_size=0)
    assert {name: getattr(config, name) for name in expected} == expected
    assert levels_of(config.T, config.fractions) == (5, 6, 12, 25)


def test_where_the_two_differ():
    apart = {k for k, v in PAPER.flat().items() if RELEASED.flat()[k] != v}
    assert apart == {'penalty', 'error', 'diffusion_neighbors', 'diffusion_steps',
                     'diffusion_batch'}
    assert (PAPER.penalty, RELEASED.penalty) == ('log-sigmoid', 'sigmoid')
    assert (RELEASED.error, RELEASED.diffusion_neighbors) == ('absolute', 20)
    assert (PAPER.diffusion_steps, RELEASED.diffusion_steps) == (40, 100)


def test_jumps_have_the_law_of_the_walked_chain():
    torch.manual_seed(0)
    [_, jumping] = Training(SPLIT, RELEASED).model.samplers
    h, v = F.normalize(torch.randn(SPLIT.graph.num_nodes, 32)), torch.zeros(20_000).long()
    jumping.step(h)
    jumped = jumping.points(h, v)
    jumping.chain = True
    walked = jumping.points(h, v)
    for t in jumping.levels:
        for power in (1, 2):        # the mean of every channel, and of its square
            a, b = jumped[t]**power, walked[t]**power
            z = (a.mean(0) - b.mean(0))/((a.var(0) + b.var(0))/len(v)).sqrt()
            assert z.abs().max() < 4.5 and .4 < z.square().mean() < 2
    joint = [(x[jumping.levels[0]]*x[jumping.levels[1]]).mean(0) for x in (jumped, walked)]
    torch.testing.assert_close(*joint, rtol=0, atol=.03)                   # levels of one walk


@pytest.mark.parametrize('config', [PAPER, RELEASED], ids=['paper', 'released'])
def test_the_rows_of_a_released_split_are_used_as_they_are(config):
    rows = torch.cat([SPLIT.train[:50].flip(1), torch.randint(300, (50, 1))], 1)   # one end only
    given = replace(SPLIT, rows=rows)
    model, links = build(given, config)
    uniform, generator = model.samplers
    assert torch.equal(links, rows[:, :2].T) and torch.equal(uniform.fixed, rows[:, 2])
    assert torch.equal(generator.adjacency.degree, SPLIT.train_graph.degrees)   # both ends here
    model, links = build(SPLIT, config)                                         # no rows given
    assert links.shape[1] == 2*len(SPLIT.train)


def test_negatives_of_baselines_are_drawn_once():
    for method in ('gcn', 'pns', 'dns', 'kbgan'):
        training = Training(SPLIT, Config(method, 'paper'))
        [batch], [sampler] = list(training.loader), training.model.samplers
        score = training.model.eval().score(batch.inputs)
        offered = {'kbgan': lambda: sampler.table}.get(method, lambda: sampler.fixed)
        first = offered().clone()
        for _ in range(2): sampler.step(score.h, batch, score)
        assert torch.equal(offered(), first), method
        if method == 'kbgan': continue
        a, b = (sampler.sample(score.h, batch, score)[0].u for _ in range(2))
        assert torch.equal(a, b)
        if method == 'dns': assert (first == a[:, None]).any(1).all()          # one of its ten
    popular = build(SPLIT, Config('pns', 'paper'))[0].samplers[0].fixed
    degrees = SPLIT.train_graph.degrees.float()
    assert degrees[popular].mean() > degrees.mean()


def test_subgraph_baselines_have_no_labels():
    for method in ('seal', 'scaled'):
        assert build(SPLIT, Config(method, 'paper'))[0].decoder.label is None
        assert build(SPLIT, Config(method))[0].decoder.label is not None


def test_encoders():
    gcn, _ = build(SPLIT, PAPER)
    assert type(gcn.encoder) is Encoder and gcn.encoder.activation == 'every'
    kinds = dict(gat=ReleasedGAT, sage=ReleasedSAGE)
    for name, kind in kinds.items():
        assert type(build(SPLIT, PAPER.replace(encoder=name))[0].encoder) is kind
    gat = build(SPLIT, PAPER.replace(encoder='gat'))[0].encoder
    for layer, width in ((gat.first, SPLIT.graph.features.shape[1]), (gat.last, 96)):
        weight = layer.linear.weight                               # as PyTorch's linear layer
        assert .9*width**-.5 < weight.abs().max() <= width**-.5
    encoder, graph = gcn.encoder.eval(), SPLIT.train_graph
    x, adj = graph.features.to_dense(), torch.zeros(graph.num_nodes, graph.num_nodes)
    adj[tuple(graph.edge_index)] = 1.
    adj += torch.eye(graph.num_nodes)
    for layer in encoder.layers:
        x = F.leaky_relu(adj@x@layer.linear.weight/adj.sum(1, keepdim=True))
        x = F.normalize(x)
    torch.testing.assert_close(encoder(*encoder.inputs(graph)).h, x)


@pytest.mark.parametrize('config', [PAPER, RELEASED], ids=['paper', 'released'])
def test_the_loss_averages_five_kinds_of_negatives(config):
    torch.manual_seed(0)
    training = Training(SPLIT, config.replace(dropout=0., diffusion_steps=1))
    model, [batch] = training.model, list(training.loader)
    emb = model.encoder(*batch.inputs)
    score, h = model.decoder(emb), emb.h.detach()
    model.samplers[1].step(h, batch, score)
    negatives = [kind for s in model.samplers for kind in s.sample(h, batch, score)]
    fixed, *points = negatives
    penalty = {'log-sigmoid': lambda s: -F.logsigmoid(s), 'sigmoid': lambda s: (-s).sigmoid()}
    cost = lambda x, sign: penalty[config.penalty](sign*(emb.h[batch.v]*x).sum(1)).mean()
    weights = (1., 1., .9, .8, .7)
    kinds = [emb.h[fixed.u], *(p.x for p in points)]
    negative = sum(w*cost(x, -1) for w, x in zip(weights, kinds))/5
    expected = (cost(emb.h[batch.u], 1) + negative)/2
    torch.testing.assert_close(model.loss(score, emb, batch, negatives), expected)
    again = [kind for s in model.samplers for kind in s.sample(h, batch, score)]
    assert torch.equal(again[0].u, fixed.u)                        # one fixed negative per link
    for optimizer in (training.optimizer, model.samplers[1].optimizer):
        assert optimizer.param_groups[0]['weight_decay'] == 1e-4


def test_time_is_encoded_as_released():
    denoiser = Denoiser(32, fcl='silu', time_encoding='released')
    assert isinstance(denoiser.time[1], nn.GELU)
    t = torch.tensor([1, 6, 50])
    length = torch.exp(torch.arange(17)*-(math.log(10000)/16))     # d/2 + 1 wave lengths
    angle = (t - 1)[:, None]*length                                # steps are counted from 0
    expected = torch.cat([angle.sin(), angle.cos()], 1)[:, :32]
    torch.testing.assert_close(denoiser.waves(t, 32), expected)


def test_the_noise_of_a_step_back_is_the_posterior_variance():
    schedule = make_schedule('linear', 50)
    before, now = schedule.ᾱ[:-1], schedule.ᾱ[1:]
    expected = schedule.β[1:]*(1 - before)/(1 - now)
    torch.testing.assert_close(sigmas(schedule, 'posterior')[1:]**2, expected)


def test_a_tie_counts_as_better():
    layer = nn.Linear(1, 1)
    first, last = State(), State()
    for value in (.5, .7, .7, .6):
        first.note(1., value, layer)
        last.note(1., value, layer, keep_last=True)
    assert (first.best_epoch, last.best_epoch) == (2, 3)


def test_rates_of_the_appendix():
    lr = {m: Config(m, 'paper').lr for m in methods}
    assert lr['seal'] == lr['scaled'] == 1e-4 and lr['arvga'] == .005
    assert all(lr[m] == .01 for m in ('gcn', 'gvae', 'pns', 'dns', 'mcns', 'kbgan', 'dmns'))
    pns, _ = build(SPLIT, Config('pns', 'paper'))
    assert pns.samplers[0].offset == 0.                            # no correction for popularity
