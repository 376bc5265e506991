"Rewrite results/runs.jsonl from the 43 flat settings of old to the grouped settings, without touching what was measured."
import json
import sys
from pathlib import Path

from dmns_nb.checkpoints import plain_settings
from dmns_nb.settings import Config

RENAMED = dict(widths='channels', least='min_epochs', validation='val_candidates', batch='batch_size', link='penalty',
               candidates='pool', weights='level_weights', layers='film_layers', neighbors='diffusion_neighbors')
SAME = ('encoder norm unit bias dropout popularity lr epochs patience fresh reduction fractions schedule T noise fcl conditional affine '
        'queries diffusion_steps diffusion_lr diffusion_decay error learned').split()
OLD_DEFAULTS = dict(
    method='dmns', encoder='gcn', widths=[128, 64], norm='sym', unit='all', bias=True, dropout=.5, temperature=3., popularity=True,
    lr=.01, epochs=400, patience=100, least=200, validation=100, fresh=True, batch=0, link='log-sigmoid', reduction='sum',
    variational=[True, False], generated=[.15, .01], grounded=True, candidates=10, uniform=True, learned=True,
    fractions=[.1, .125, .25, .5], weights=[1., .9, .8, .7], schedule='linear', T=50, noise='β', layers=2, fcl='linear',
    conditional=True, affine=True, estimator='exact', queries=.1, diffusion_steps=1, diffusion_lr=.01, diffusion_decay=0.,
    error='squared', neighbors=0, seed=0)


def tupled(v): return tuple(v) if isinstance(v, (list, tuple)) else v


def new_settings(old: dict):
    "Keywords of `Config` and the grid that was searched, from old settings"
    old = OLD_DEFAULTS | old
    method, dmns = old['method'], old['method'] == 'dmns'
    new = {RENAMED.get(k, k): tupled(old[k]) for k in (*SAME, *RENAMED)}
    grid = {}
    for name, to in (('variational', 'variational'), ('temperature', 'temperature'), ('generated', 'generated_weight')):
        values = old[name]
        if name != 'temperature' and not dmns: continue
        if isinstance(values, (list, tuple)): grid[to], values = list(values), values[0]
        new[to] = values
    if dmns:
        new['generated'] = 'nodes' if old['grounded'] else 'laws' if old['estimator'] == 'exact' else 'points'
        new['chain'] = old['estimator'] == 'chain'
        new['samplers'] = ('uniform', 'dmns') if old['uniform'] else ('dmns',)
    else:
        for name in ('encoder',) if method in ('seal', 'scaled', 'pyg') else (): del new[name]
        if method == 'arvga': new['lr'] = .005                     # it never used another
        if method == 'pyg': del new['temperature'], new['popularity']
        for name in ('pool', 'level_weights', 'film_layers', 'diffusion_neighbors', 'fractions', 'schedule', 'T', 'noise', 'fcl',
                     'conditional', 'affine', 'queries', 'diffusion_steps', 'diffusion_lr', 'diffusion_decay', 'error', 'learned'):
            del new[name]
    return dict(method=method, seed=old['seed'], **new), grid


def migrate(record: dict) -> dict:
    keywords, grid = new_settings(record['config'])
    chosen = {dict(generated='generated_weight').get(k, k): v for k, v in record.get('chosen', {}).items()}
    out = {k: v for k, v in record.items() if k not in ('config', 'chosen')}
    return out | dict(config=plain_settings(Config(**keywords)), grid=grid, chosen=chosen)


if __name__ == '__main__':
    path = Path(sys.argv[1])
    records = [migrate(json.loads(line)) for line in path.read_text(encoding='utf-8').splitlines()]
    path.write_text(''.join(json.dumps(r, ensure_ascii=False, separators=(',', ':')) + '\n' for r in records), encoding='utf-8')
    print(f'{len(records)} records')
