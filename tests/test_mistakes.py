"What users do by mistake ends in one sentence, or is put right; none of it was so at first."
import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from dmns_nb.checks import InputError
from dmns_nb.graphs import graph_from_edges, load_graph, synth_graph
from dmns_nb.methods import Run, fit, search
from dmns_nb.predict import calibrate, predict_links, predict_pairs
from dmns_nb.ranking import expected_map
from dmns_nb.runs import read_pairs
from dmns_nb.settings import Config
from dmns_nb.splits import read_split, split_links

GRAPH = synth_graph(60, seed=2)
SPLIT = split_links(GRAPH, num_val=.1, num_test=.1)
RING = [[i, (i + 1) % 6] for i in range(6)]


@pytest.fixture(scope='module')
def run(): return fit(SPLIT, Config('gcn', channels=(8, 8), epochs=2), quiet=True)


def undirected_file(folder):
    graph_from_edges(RING).save(folder/'ring.npz')
    return load_graph(folder/'ring.npz', directed=True)


def table(folder, text):
    (folder/'links.csv').write_text(text)
    return load_graph(folder/'links.csv')


@pytest.mark.parametrize('call, message', [
    (undirected_file, 'does not say in which direction'),
    (lambda _: load_graph(nx.Graph(RING), directed=True), 'does not say in which direction'),
    (lambda _: graph_from_edges(pd.DataFrame(dict(a=['x', None], b=['y', 'z']))), 'is missing'),
    (lambda _: graph_from_edges(np.array([['x', 'y'], ['z', np.nan]], object)), 'is missing'),
    (lambda folder: table(folder, 'a,b\n"big,b\nb,c\n"old,c\nc,a\n'), 'a name with a line break'),
    (lambda _: split_links(GRAPH, num_val=.6, num_test=.5), '110% of the links together'),
    (lambda _: split_links('links.csv'), 'takes a graph, not a str'),
    (lambda _: fit(SPLIT, 'gcn'), 'takes a split and a Config'),
    (lambda _: fit(GRAPH), 'takes a split and a Config'),
    (lambda _: Run.load('any.run', GRAPH), 'not a Graph'),
    (lambda _: fit(replace(SPLIT, train=SPLIT.train[:1]), Config('pairs')), 'two training links'),
    (lambda _: fit(replace(SPLIT, val=SPLIT.val[:0]), Config('graphgan')), 'on all links'),
    (lambda _: search(SPLIT, Config('gcn'), dict(lr=[])), 'needs values to try for lr')])
def test_a_mistake_is_named(tmp_path, call, message):
    with pytest.raises(InputError, match=message): call(tmp_path)


@pytest.mark.parametrize('call', [
    lambda run: run.score((1, 2)), lambda run: predict_pairs(run, (1, 2)),
    lambda run: run.with_nodes(torch.ones(1, 40), links=(120, 3)),
    lambda run: predict_pairs(run, ['ab'])])
def test_pairs_are_rows_of_two_nodes(run, call):
    with pytest.raises(InputError, match='pairs are rows of two nodes'): call(run)


def test_pairs_come_in_any_form(run):
    pairs = [(1, 2), (3, 4)]
    for same in (np.array(pairs), torch.tensor(pairs), pd.DataFrame(pairs, columns=['aa', 'bb'])):
        assert torch.equal(run.score(same), run.score(pairs))
    with pytest.raises(InputError, match='given as a list'): predict_links(run, 3, 5)
    with pytest.raises(InputError, match='no pairs are given'): run.score([])


def test_files_keep_the_name_they_are_given(tmp_path):
    SPLIT.save(tmp_path/'my.split')
    assert torch.equal(read_split(tmp_path/'my.split', GRAPH).test, SPLIT.test)


def test_predictions_are_read_as_pairs(tmp_path, run):
    found = predict_links(run, 2, [7, 9])
    found.to_csv(tmp_path/'predictions.csv', index=False)
    pairs = read_pairs(tmp_path/'predictions.csv', GRAPH)
    assert pairs == found[['node', 'predicted']].to_numpy().tolist()


def test_wide_features_and_projections_are_read(tmp_path):
    (tmp_path/'links.csv').write_text('\n'.join(f'{u},{v}' for u, v in RING))
    row = ','.join(['0.123456']*20_000)
    (tmp_path/'wide.csv').write_text('\n'.join(f'{v},{row}' for v in range(6)))
    wide = load_graph(tmp_path/'links.csv', features=tmp_path/'wide.csv')
    assert wide.features.shape[1] == 20_000
    women = nx.davis_southern_women_graph()
    side = [v for v, more in women.nodes(data=True) if more['bipartite'] == 0]
    assert load_graph(nx.bipartite.projected_graph(women, side)).side is None


def test_trees_learn_where_a_node_is_linked_to_all_others():
    ego = graph_from_edges([*RING, *([6, i] for i in range(6))])
    split = split_links(ego, num_val=.2, num_test=.2, candidates=1)
    assert fit(split, Config('pairs', rounds=2), quiet=True).metrics


def test_higher_scores_never_mean_lower_probabilities(run):
    wrong = replace(run, calibration=())
    wrong.__dict__['bound_score'] = run.bound_score
    scored = type(wrong).score_rows
    wrong.score_rows = lambda rows: -scored(wrong, rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        slope, intercept = calibrate(wrong)
    assert slope == 0 and intercept < 0 and 'probabilities are equal' in str(caught[0].message)


def test_search_tries_values_of_any_kind(tmp_path):
    grid = dict(norm=('sym', 'row'), channels=((8, 8), (4, 4)))
    best = search(SPLIT, Config('gcn', epochs=1), grid, tmp_path/'search', quiet=True)
    assert len(best.tried) == 3 and len([*tmp_path.iterdir()]) == 3


def test_what_graphgan_learned_before_its_game_is_loaded(tmp_path):
    run = fit(SPLIT, Config('graphgan', channels=(8, 8), epochs=1), quiet=True)
    run.save(tmp_path/'g.run')
    again = Run.load(tmp_path/'g.run', SPLIT)
    assert torch.equal(again.score_rows(SPLIT.test), run.score_rows(SPLIT.test))


def test_negatives_of_other_sources_are_refused():
    run = fit(SPLIT, Config('dmns', channels=(8, 8), epochs=1, source='moments'), quiet=True)
    with pytest.raises(InputError, match='has no reverse process'): run.negatives(0, 5)


def test_a_pair_has_one_score_whichever_way_it_is_computed():
    split = split_links(synth_graph(400), .1, .1, candidates=5)
    run = fit(split, Config('pairs'), quiet=True)
    queries = torch.arange(400).repeat_interleave(66)
    others = torch.randint(400, queries.shape, generator=torch.Generator().manual_seed(0))
    asked = (queries != others) & ~split.train_graph.has_link(queries, others)
    v, u = queries[asked], others[asked]
    torch.testing.assert_close(run.score_rows(torch.stack([v, u], 1))[:, 0],
                               run.score_all(torch.arange(400))[v, u], rtol=0, atol=1e-5)


def test_questions_that_are_answered_perfectly_count_one():
    perfect = torch.cat([torch.ones(5, 1), torch.zeros(5, 100)], 1)
    assert abs(expected_map(perfect, 9) - 1) < 1e-4
