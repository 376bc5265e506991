"What must hold for any graph, any scores and any denoiser."
import csv
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from hypothesis import given, settings, strategies as st
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

from dmns_nb.checks import InputError
from dmns_nb.closed_form import marginals
from dmns_nb.ddpm import Schedule, make_schedule, schedules
from dmns_nb.film import Denoiser
from dmns_nb.graphs import graph_from_edges, load_graph
from dmns_nb.methods import Run, fit
from dmns_nb.negatives import generate
from dmns_nb.predict import predict_links
from dmns_nb.ranking import (evaluate, harden, heart_pairs, link_ids, metric_values,
                             rank_among_all, ranks, recall, tie_shares)
from dmns_nb.settings import Config
from dmns_nb.splits import read_split, split_links

few = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@st.composite
def graphs(draw):
    "A small graph, with features or without, with names or without, some nodes without links"
    n = draw(st.integers(8, 30))
    node = st.integers(0, n - 1)
    pair = st.tuples(node, node).filter(lambda e: e[0] != e[1])
    edges = draw(st.lists(pair, min_size=6, max_size=60))
    features = draw(st.sampled_from([None, 'dense', 'sparse']))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = None if features is None else rng.normal(size=(n, 5)).astype(np.float32)
    if features == 'sparse': x = x*(rng.random((n, 5)) < .1)
    names = draw(st.sampled_from([None, [f'node {i}' for i in range(n)]]))
    return graph_from_edges(edges, x, names, num_nodes=n)


def hide(graph, seed=0):
    try: return split_links(graph, .2, .2, seed, candidates=3)
    except InputError as e:
        assert any(part in str(e) for part in ('too few', 'candidates at both ends'))


@few
@given(graphs(), st.integers(0, 9))
def test_splits_never_leak(graph, seed):
    split = hide(graph, seed)
    if split is None: return
    split.check()
    n, hidden = graph.num_nodes, torch.cat([split.val, split.test])
    ends = {tuple(e) for e in hidden[:, :2].tolist()}
    assert ends == {(v, u) for u, v in ends}
    pairs = torch.cat([split.train, hidden[hidden[:, 0] < hidden[:, 1], :2]])
    assert sorted(map(tuple, pairs.tolist())) == sorted(map(tuple, graph.links.tolist()))
    for one in (split, harden(split), harden(split, protocol='heart')):
        for rows in (one.val, one.test):
            assert all(len(set(row)) == 5 for row in rows.tolist()) and rows.max() < n
            assert not graph.has_link(rows[:, :1], rows[:, 2:]).any()


def reciprocal_of_score(scores, ties):
    "Average precision as scikit-learn has it; its ranks are pessimistic"
    truth = np.zeros_like(scores)
    truth[:, 0] = 1
    precision = label_ranking_average_precision_score(truth, scores)
    return precision, ndcg_score(truth, scores, ignore_ties=not ties)


@few
@given(st.integers(1, 12), st.integers(2, 15), st.booleans(), st.integers(0, 99))
def test_metrics_are_those_of_scikit_learn(questions, width, ties, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 4, questions*width) if ties else rng.permutation(questions*width)
    scores = numbers.reshape(questions, width).astype(np.float64)
    precision, gain = reciprocal_of_score(scores, ties)
    found = metric_values(torch.from_numpy(scores), 'pessimistic')
    assert np.isclose(found['map'].mean(), precision)
    if not ties: assert np.isclose(found['ndcg'].double().mean(), gain)
    for name, e in evaluate(torch.from_numpy(scores)).items():
        assert 0 <= e.low <= e.mean + 1e-9 and e.mean <= e.high + 1e-9 <= 1 + 1e-6, name


@few
@given(st.integers(1, 12), st.integers(2, 15), st.integers(1, 20), st.integers(0, 99))
def test_ranks_are_those_of_ogb(questions, width, K, seed):
    scores = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, (questions, width)))
    positive, own = scores[:, :1], scores[:, 1:]
    higher, at_least = (own > positive).sum(1), (own >= positive).sum(1)   # as for MRR
    assert torch.equal(ranks(scores), 1 + (higher + at_least)/2)
    shared = own[0]                                                        # as for Hits@K
    kth = shared.sort().values[-K] if len(shared) >= K else -1
    hits = positive[:, 0] > kth
    among = torch.cat([positive, shared.expand(questions, -1)], 1)
    assert torch.equal(ranks(among, 'pessimistic') <= K, hits)


@few
@given(graphs(), st.sampled_from(sorted(tie_shares)), st.integers(1, 200), st.integers(0, 99))
def test_rank_among_all_is_the_one_counted_by_hand(graph, ties, max_scores, seed):
    n = graph.num_nodes
    scores = torch.from_numpy(np.random.default_rng(seed).integers(0, 5, (n, n)))
    questions = torch.cat([graph.links, graph.links.flip(1)])[::3]
    found = rank_among_all(lambda v: scores[v], questions, graph, ties, max_scores)
    for (v, u), rank in zip(questions.tolist(), found.tolist()):
        others = [w for w in range(n) if w != v and w not in graph.neighbors(v)]
        higher = sum(bool(scores[v, w] > scores[v, u]) for w in others)
        equal = sum(bool(scores[v, w] == scores[v, u]) for w in others)
        assert rank == 1 + higher + tie_shares[ties]*equal
    assert torch.equal(found, rank_among_all(lambda v: scores[v], questions, graph, ties))


@few
@given(graphs(), st.integers(1, 12), st.integers(0, 99))
def test_recall_is_the_share_among_the_first(graph, k, seed):
    n = graph.num_nodes
    scores = torch.from_numpy(np.random.default_rng(seed).permutation(n*n).reshape(n, n))
    hidden = torch.cat([graph.links, graph.links.flip(1)])[::2]
    r = rank_among_all(lambda v: scores[v], hidden, graph)
    for v, found in zip(hidden[:, 0].unique().tolist(), recall(r, hidden[:, 0], k)):
        asked = hidden[hidden[:, 0] == v, 1].tolist()
        listed = [w for w in scores[v].argsort(descending=True).tolist()
                  if w in asked or (w != v and w not in graph.neighbors(v))]
        assert np.isclose(found, len(set(asked) & set(listed[:k]))/len(asked))


@few
@given(graphs(), st.integers(0, 9))
def test_pairs_of_heart_replace_one_end_by_a_node_that_is_not_linked(graph, seed):
    split = hide(graph, seed)
    if split is None: return
    pairs = heart_pairs(split, split.test, k=6, chunk=3)
    links, others = pairs[:, :1], pairs[:, 1:]
    assert {tuple(sorted(e)) for e in links[:, 0].tolist()} == \
        {tuple(sorted(e)) for e in split.test[:, :2].tolist()}
    assert len(links)*2 == len(split.test)
    assert (others[:, :3, 0] == links[..., 0]).all() and (others[:, 3:, 1] == links[..., 1]).all()
    assert not graph.has_link(*others.unbind(-1)).any()
    assert (others[..., 0] != others[..., 1]).all()
    assert all(len(set(map(tuple, row))) == 6 for row in others.tolist())


def chain_moments(denoiser, query, schedule, stops, noise):
    "Mean and variance of the affine chain, exactly: each unit of noise is sent through it alone"
    def walk(unit):   # which draw is one instead of zero
        draws = iter(range(schedule.T + 1))
        draw = lambda x: torch.full_like(x, float(next(draws) == unit))
        with mock.patch('torch.randn_like', side_effect=draw):
            return generate(denoiser, query, schedule, stops, noise)
    mean = walk(None)
    lone = [walk(unit) for unit in range(schedule.T + 1)]
    return {t: (mean[t], sum((one[t] - mean[t])**2 for one in lone)) for t in stops}


@few
@given(st.integers(1, 3), st.integers(3, 12), st.sampled_from(schedules),
       st.sampled_from(['β', 'posterior']), st.sampled_from(['linear', 'silu']), st.booleans(),
       st.integers(0, 99))
def test_closed_form_has_the_moments_of_the_chain(layers, T, kind, noise, fcl, conditional, seed):
    torch.manual_seed(seed)
    denoiser = Denoiser(4, layers, fcl, conditional).double()
    query = torch.randn(3, 4, dtype=torch.double)
    schedule = Schedule(make_schedule(kind, T).β.double())
    stops = sorted({1, T//2, T - 1} - {0})
    with torch.no_grad():
        laws = marginals(denoiser, query, schedule, stops, noise)
        chain = chain_moments(denoiser, query, schedule, stops, noise)
    for t in stops:
        for law, walked in zip(laws[t], chain[t]):
            assert torch.allclose(law, walked, rtol=1e-5, atol=1e-7), (t, law, walked)


@few
@given(graphs())
def test_graphs_and_splits_round_trip(graph):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder)/'graph.npz'
        graph.save(file)
        again = load_graph(file)
        assert torch.equal(again.links, graph.links) and again.names == graph.names
        assert again.fingerprint == graph.fingerprint
        assert torch.equal(again.features.to_dense(), graph.features.to_dense())
        split = hide(graph)
        if split is None: return
        split.save(Path(folder)/'split.npz')
        back = read_split(Path(folder)/'split.npz', again)
        for part in ('train', 'val', 'test'):
            assert torch.equal(getattr(back, part), getattr(split, part))


letter = st.sampled_from('abcäß0123456789 ,"\'-_.;:/\\#%')
name = st.text(letter, max_size=6).map(lambda text: f'n{text}n')


@few
@given(st.lists(st.tuples(name, name).filter(lambda e: e[0] != e[1]), min_size=1, max_size=12),
       st.integers(0, 99))
def test_tables_round_trip(edges, seed):
    rng, names = np.random.default_rng(seed), sorted({v for e in edges for v in e})
    rows = rng.normal(size=(len(names), 2)).astype(np.float32)
    order = rng.permutation(len(names))
    with tempfile.TemporaryDirectory() as folder:
        links, features = Path(folder)/'links.csv', Path(folder)/'features.csv'
        described = [('node', 'x', 'y'), *((names[i], *rows[i].tolist()) for i in order)]
        for path, lines in ((links, [('source', 'target'), *edges]), (features, described)):
            with open(path, 'w', newline='', encoding='utf-8') as f:
                csv.writer(f).writerows(lines)
        graph, plain = load_graph(links, features=features), load_graph(links)
    assert plain.names == names and graph.names == [names[i] for i in order]
    found = {frozenset(graph.names[v] for v in link) for link in graph.links.tolist()}
    assert found == {frozenset(e) for e in edges}
    assert torch.allclose(graph.features.to_dense(), torch.from_numpy(rows[order]))


@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(graphs(), st.sampled_from(['dmns', 'gcn', 'gvae']))
def test_runs_round_trip_and_predict_no_known_link(graph, method):
    split = hide(graph)
    if split is None: return
    config = Config('dmns', 'compact', epochs=2, generated_weight=.03, val_candidates=0)
    config = config.replace(method=method)
    assert config.variational == (method == 'gvae')
    run = fit(split, config)
    with tempfile.TemporaryDirectory() as folder:
        run.save(f'{folder}/run')
        again = Run.load(f'{folder}/run', split)
    assert torch.equal(again.score_rows(split.test), run.score_rows(split.test))
    assert again.config == run.config and again.history == run.history
    found = predict_links(run, 3)
    pairs = [[graph.index(v), graph.index(u)] for v, u in zip(found.node, found.predicted)]
    pairs = torch.tensor(pairs).reshape(-1, 2)
    assert not graph.has_link(*pairs.T).any() and (pairs[:, 0] != pairs[:, 1]).all()
    assert found.score.map(np.isfinite).all()
    assert len(set(map(tuple, pairs.tolist()))) == len(pairs)
    assert len(link_ids(split.test, graph.num_nodes)) == len(split.test)
