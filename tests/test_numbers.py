"""Training gives the numbers that it gave before the package was restructured.

`histories.json` holds loss and validation score of each epoch on a small synthetic graph, measured
with the package as it was before. Six rows are of later: `gvae gat` and `arvga`, whose attention
and discriminator PyG's wrapper classes used to initialise a second time, `pns`, which draws by a
search in a cumulative sum, and the presets `paper` and `released`, which have followed the released
program point by point since then (`released` lists its neighbours as that program does, and jumps
between levels). The validation scores are of later, too: questions that are answered perfectly
counted 1.013, and now count 1.
"""
import json
from pathlib import Path

import pytest
import torch

from dmns_nb.graphs import synth_graph
from dmns_nb.methods import fit
from dmns_nb.settings import Config
from dmns_nb.splits import split_links

HISTORIES = json.loads((Path(__file__).parent/'histories.json').read_text())
NODES = dict(generated_weight=.15)
CLOUDS = dict(variational=True, generated_weight=.15)
LAWS = dict(generated='laws', generated_weight=.02)
POINTS = LAWS | dict(generated='points')
CHAIN = POINTS | dict(chain=True)
CONFIGS = {
    'gcn': dict(method='gcn'), 'gcn batch': dict(method='gcn', batch_size=500),
    'gcn gat': dict(method='gcn', encoder='gat'), 'gcn sage': dict(method='gcn', encoder='sage'),
    'gcn fixed': dict(method='gcn', fresh=False),
    'gcn mean': dict(method='gcn', reduction='mean', penalty='sigmoid'),
    'pyg': dict(method='pyg'), 'pns': dict(method='pns'), 'dns': dict(method='dns'),
    'mcns': dict(method='mcns'), 'gvae': dict(method='gvae'),
    'gvae gat': dict(method='gvae', encoder='gat'), 'arvga': dict(method='arvga'),
    'graphgan': dict(method='graphgan'), 'kbgan': dict(method='kbgan'),
    'seal': dict(method='seal'), 'scaled': dict(method='scaled'),
    'dmns points exact': LAWS, 'dmns points exact all': LAWS | dict(queries=1.),
    'dmns points draws': POINTS, 'dmns points chain': CHAIN,
    'dmns not affine': CHAIN | dict(affine=False, diffusion_neighbors=20),
    'dmns nodes': NODES, 'dmns nodes variational': CLOUDS,
    'dmns nodes gat': NODES | dict(encoder='gat'),
    'dmns nodes sage': NODES | dict(encoder='sage'),
    'dmns nodes batch': NODES | dict(batch_size=500),
    'dmns points batch': LAWS | dict(batch_size=500),
    'dmns not learned': CLOUDS | dict(source='moments'),
    'dmns generated only': CLOUDS | dict(samplers=('dmns',)),
    'dmns unconditional': NODES | dict(conditional=False),
    'dmns cosine T=20': LAWS | dict(schedule='cosine', T=20),
    'default': CLOUDS | dict(method='dmns', preset='default'),
    'compact': CLOUDS | dict(preset='compact'),
    'paper gcn': dict(preset='paper', method='gcn'), 'paper': dict(preset='paper'),
    'released': dict(preset='released', epochs=3, diffusion_steps=10)}


def test_every_configuration_is_compared(): assert set(CONFIGS) == set(HISTORIES)


@pytest.mark.parametrize('name', CONFIGS)
def test_the_numbers_have_not_moved(name):
    torch.set_num_threads(1)
    config = Config(**(dict(preset='compact', epochs=8) | CONFIGS[name]))
    history = fit(split_links(synth_graph(300, seed=1)), config, device='cpu').history
    found, expected = torch.tensor(history), torch.tensor(HISTORIES[name])
    torch.testing.assert_close(found[:, 0], expected[:, 0], rtol=1e-5, atol=1e-6)   # loss
    torch.testing.assert_close(found[:, 1], expected[:, 1], rtol=0, atol=1e-3)   # a swap of ranks
