"Directed and bipartite graphs: no impossible question, negative or prediction."
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmns_nb.graphs import graph_from_edges, load_graph
from dmns_nb.methods import fit
from dmns_nb.predict import predict_links
from dmns_nb.settings import Config
from dmns_nb.splits import split_links
from test_commands import forked


def digraph(seed, n=40, m=220):
    arcs = np.random.default_rng(seed).integers(n, size=(m, 2))
    return graph_from_edges(arcs, np.eye(n)[:, :12], directed=True)


def shop(seed, customers=40, products=25, m=220):
    rng = np.random.default_rng(seed)
    sales = np.stack([rng.integers(customers, size=m),
                      customers + rng.integers(products, size=m)], 1)
    kinds = np.arange(customers + products) >= customers
    return graph_from_edges(sales, num_nodes=customers + products, bipartite=kinds)


def allowed(graph, v, u):
    "Whether the pairs could be new answers, said in another way than the package does"
    known = set(map(tuple, graph.pairs.tolist()))
    if not graph.directed: known |= {(b, a) for a, b in known}
    pairs = list(zip(v.flatten().tolist(), u.flatten().tolist()))
    sides = graph.side.tolist() if graph.side is not None else None
    return all(p not in known and p[0] != p[1] and not (sides and sides[p[0]] == sides[p[1]])
               for p in pairs)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([digraph, shop]), st.integers(1, 9))
def test_questions_and_negatives_are_possible(seed, make, candidates):
    graph = make(seed)
    split = split_links(graph, .1, .1, seed=seed, candidates=candidates)
    split.check()
    for rows in (split.val, split.test):
        assert graph.known.linked(rows[:, 0], rows[:, 1]).all()
        assert allowed(graph, rows[:, :1].expand_as(rows[:, 2:]), rows[:, 2:])
    v = torch.arange(graph.num_nodes)[graph.num_free(torch.arange(graph.num_nodes)) > 0]
    v = v[:, None].expand(-1, 30)
    assert allowed(graph, v, graph.known.draw_unlinked(v.contiguous()))


@pytest.mark.parametrize('make', [digraph, shop])
@pytest.mark.parametrize('method', 'boosted pairs gcn gvae pns dns mixgcf ahns dmns'.split())
def test_every_method_for_these_kinds_predicts_possible_links(make, method):
    graph = make(0)
    config = Config(method) if method == 'pairs' else Config(method, epochs=2)
    run = fit(split_links(graph, .1, .1), config)
    for candidates in ('all', 'found'):
        table = predict_links(run, 3, candidates=candidates)
        v, u = (torch.tensor(table[name].tolist()) for name in ('node', 'predicted'))
        assert len(table) > graph.num_nodes and allowed(graph, v, u)


@pytest.mark.parametrize('setting', [dict(generated='points'), dict(generated='laws'),
                                     dict(preset='paper'), dict(decoder='trees')])
@pytest.mark.parametrize('make', [digraph, shop])
def test_variants_of_dmns(make, setting):
    run = fit(split_links(make(1), .1, .1), Config('dmns', epochs=2, **setting))
    assert run.metrics['map'].mean > 0


def test_the_score_of_trees_has_a_direction():
    run = fit(split_links(load_graph('debian', directed=True)), Config('pairs'))
    rows = run.split.test[:, :2]
    forward, back = run.score_rows(rows)[:, 0], run.score_rows(rows.flip(1))[:, 0]
    assert (forward > back).float().mean() > .85


@pytest.mark.parametrize('option, make', [('--directed', digraph), ('--bipartite', shop)])
def test_commands_keep_the_kind(option, make, tmp_path):
    graph = make(0)
    lines = [f'n{v},n{u}' for v, u in graph.pairs.tolist()]
    (tmp_path/'links.csv').write_text('from,to\n' + '\n'.join(lines) + '\n')
    done = forked(
        'dmns_train', '--dataset', str(tmp_path/'links.csv'), option, '--epochs', '2', '--quiet',
        '--predict', '3', '--predictions', str(tmp_path/'new.csv'), '--out', str(tmp_path/'runs'),
        check=True)
    assert ('arcs' if make is digraph else ' nodes (39 and 25)') in done.stdout
    [path] = (tmp_path/'runs').glob('*-all.run')
    forked('dmns_predict', str(path), '--top', '3', '--predictions', str(tmp_path/'again.csv'),
           check=True)
    first, again = (pd.read_csv(tmp_path/name) for name in ('new.csv', 'again.csv'))
    pd.testing.assert_frame_equal(first, again)
    ids = [torch.tensor([int(name[1:]) for name in first[column]])
           for column in ('node', 'predicted')]
    assert len(first) > 100 and allowed(graph, *ids)
