"Graphs and splits of users: no silent wrong answer, and one sentence where there is none."
import gzip
import re
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import RandomLinkSplit

from dmns_nb.checks import InputError
from dmns_nb.graphs import graph_from_edges, load_graph, synth_graph
from dmns_nb.ranking import harden
from dmns_nb.runs import read_pairs
from dmns_nb.splits import read_split, split_from_pyg, split_links

GRAPH = synth_graph()
SPLIT = split_links(GRAPH)


def loaded(folder, text, name='links.csv', **options):
    path, data = folder/name, text.encode()
    path.write_bytes(gzip.compress(data) if name.lower().endswith('.gz') else data)
    return load_graph(path, **options)


def links(graph):
    "Pairs of names, or of ids"
    name = lambda v: graph.names[v] if graph.names else v
    return {frozenset(map(name, e)) for e in graph.links.tolist()}


def test_a_number_that_is_no_name_is_refused(tmp_path):
    graph = loaded(tmp_path, ''.join(f'{1000 + i},{1001 + i}\n' for i in range(100)))
    assert graph.names[graph.index(1051)] == graph.names[graph.index('1051')] == '1051'
    for missing in (51, 0, '51'):
        with pytest.raises(InputError, match="no node named '"): graph.index(missing)
    with pytest.raises(InputError, match='a whole number, not by 1051.5'): graph.index(1051.5)


def test_pairs_to_score_are_looked_up_by_name(tmp_path):
    graph = loaded(tmp_path, '7,51\n51,900\n900,7\n')
    (tmp_path/'pairs.csv').write_text('customer,product\n51,7.0\n900,51\n')
    assert read_pairs(tmp_path/'pairs.csv', graph) == [['51', '7'], ['900', '51']]


@pytest.mark.parametrize('text', [
    '#ai,#ml\n#ml,food\nfood,#ai\n', 'food,#ai\n#ai,#ml\n#ml,food\n',
    '# tags of posts\n#ai,#ml\n#ml,food\nfood,#ai\n'])
def test_hashtags_are_nodes(tmp_path, text):
    found = links(loaded(tmp_path, text))
    assert found == {frozenset(e) for e in (('#ai', '#ml'), ('#ml', 'food'), ('food', '#ai'))}


def test_comments_as_snap_writes_them_are_counted(tmp_path):
    text = '# Directed graph: x.txt\n# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n'
    graph = loaded(tmp_path, text, 'x.txt')
    assert links(graph) == {frozenset((0, 1)), frozenset((1, 2))}
    assert '3 comment lines at the top skipped' in graph.notes


@pytest.mark.parametrize('name', ['x.csv', 'x.CSV', 'x.csv.gz', 'x.txt', 'x.TXT.GZ', 'x.tsv'])
@pytest.mark.parametrize('header', [True, False])
def test_all_forms_of_a_table_give_the_same_graph(tmp_path, name, header):
    rows = [('Source', 'Target')]*header + [('10', ' 11'), ('10.0', '12'), ('12 ', '11')]
    separator = '\t' if 'tsv' in name else ';' if header else ','
    graph = loaded(tmp_path, '\n'.join(separator.join(row) for row in rows), name)
    assert graph.names == ['10', '11', '12'] and len(graph.links) == 3


def test_ignored_columns_and_times(tmp_path):
    text = 'Id;Source;Target;Weight;Time\n1;a;b;.5;5\n2;b;c;.5;7\n3;b;a;1;2\n'
    graph = loaded(tmp_path, text)
    assert '2 columns ignored: Id, Weight' in graph.notes
    assert links(graph) == {frozenset('ab'), frozenset('bc')} and graph.times.tolist() == [2, 7]
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_attr=torch.rand(2, 3), num_nodes=3)
    assert 'edge_attr ignored' in load_graph(data).notes
    assert 'weight of the edges ignored' in load_graph(nx.Graph([(0, 1, dict(weight=2))])).notes


@pytest.mark.parametrize('seed', range(3))
def test_training_on_the_past(seed):
    rng = np.random.default_rng(seed)
    times = rng.integers(5 + 40*seed, size=len(GRAPH.links))
    graph = replace(GRAPH, times=torch.from_numpy(times))
    split = split_links(graph, .1, .2, by='time')
    split.check()
    parts = split.train, split.val[:, :2], split.test[:, :2]
    train, val, test = (graph.link_times(pairs) for pairs in parts)
    assert train.max() < val.min() and val.max() < test.min()
    moved = replace(split, train=torch.cat([split.train, split.test[:1, :2]]).unique(dim=0))
    with pytest.raises(InputError, match='leak'): moved.check()


def leaky(kind):
    "The split with one leak"
    i = int(torch.isin(SPLIT.val[:, 0], SPLIT.test[:, 0]).nonzero()[0])
    j = int((SPLIT.test[:, 0] == SPLIT.val[i, 0]).nonzero()[0])
    val, test = SPLIT.val.clone(), SPLIT.test.clone()
    val[i, 2], test[j, 2] = SPLIT.test[j, 1], SPLIT.val[i, 1]
    train = torch.cat([SPLIT.train, SPLIT.test[:, :2]])
    return replace(SPLIT, **{
        'is in the training graph and in test': dict(train=train),
        'is a candidate in val but a link of test': dict(val=val),
        'is a candidate in test but a link of val': dict(test=test),
        'is in val and, in one direction or the other, in test':
        dict(val=torch.cat([SPLIT.val, SPLIT.test[:1, [1, 0]].repeat(1, 6)[:, :11]]))}[kind])


@pytest.mark.parametrize('kind', [
    'is in the training graph and in test', 'is a candidate in val but a link of test',
    'is a candidate in test but a link of val',
    'is in val and, in one direction or the other, in test'])
def test_a_leaking_split_is_refused(tmp_path, kind):
    split = leaky(kind)
    if 'in val and' in kind:
        split.val[-1, 2:] = SPLIT.test[SPLIT.test[:, 0] == SPLIT.test[0, 1]][0, 2:]
    SPLIT.save(tmp_path/'split.npz')
    assert torch.equal(read_split(tmp_path/'split.npz', GRAPH).test, SPLIT.test)
    split.save(tmp_path/'split.npz')
    with pytest.raises(InputError, match=re.escape(kind)): read_split(tmp_path/'split.npz', GRAPH)


def test_a_hardened_split_is_read(tmp_path):
    harden(SPLIT).save(tmp_path/'split.npz')
    read_split(tmp_path/'split.npz', GRAPH).check()


@pytest.mark.parametrize('options, message', [
    (dict(candidates=0), 'candidates must be a whole number from 1'),
    (dict(candidates='9'), 'candidates must be a whole number'),
    (dict(candidates=10**8), 'use candidates='), (dict(num_val=float('nan')), 'num_val must be'),
    (dict(num_test=-.1), 'num_test must be a share'), (dict(num_val='.1'), 'num_val must be'),
    (dict(seed=2**70), 'seed must be a whole number'), (dict(by='date'), 'by cannot be'),
    (dict(by='time'), 'synth has no times')])
def test_wrong_options_of_a_split(options, message):
    with pytest.raises(InputError, match=message): split_links(GRAPH, **options)


@pytest.mark.parametrize('source, message', [
    (HeteroData(), 'several relations'), (Data(x=torch.eye(3)), 'needs edge_index or adj_t'),
    (Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=3), 'has no links'),
    (nx.empty_graph(3), 'has no links'), ([], 'cannot be loaded from a list')])
def test_wrong_sources_of_a_graph(source, message):
    with pytest.raises(InputError, match=message): load_graph(source)


@pytest.mark.parametrize('text, message', [
    (b'', 'has no rows'), (b'# x\n', 'has no rows'), (b'source,target\n', 'has no links'),
    ('köln,bonn\n'.encode('latin-1'), 'not UTF-8 text'),
    ('a,b\n'.encode('utf-16'), 'not UTF-8 text'),
    (b'a,b\nc,\n', 'end missing in line 2'), (b'a,b\n\x00\xff', 'links.csv')])
def test_wrong_tables(tmp_path, text, message):
    (tmp_path/'links.csv').write_bytes(text)
    with pytest.raises(InputError, match=message) as e: load_graph(tmp_path/'links.csv')
    assert '\n' not in str(e.value)


@pytest.mark.parametrize('options', [
    dict(), dict(split_labels=True), dict(add_negative_train_samples=False),
    dict(split_labels=True, add_negative_train_samples=False), dict(neg_sampling_ratio=0.)])
def test_splits_of_pyg(options):
    torch.manual_seed(0)
    data = GRAPH.to_pyg()
    data.edge_time = torch.zeros(data.num_edges)
    parts = RandomLinkSplit(num_val=.1, num_test=.1, is_undirected=True, **options)(data)
    split = split_from_pyg(*parts)
    split.check()
    assert torch.equal(split.graph.links, GRAPH.links)
    torch.manual_seed(0)
    plain = RandomLinkSplit(num_val=.1, num_test=.1, is_undirected=True)(GRAPH.to_pyg())
    assert torch.equal(split_from_pyg(*plain).test[:, :2], split.test[:, :2])


@pytest.mark.parametrize('parts, message', [
    (RandomLinkSplit(num_val=.1, num_test=.1)(GRAPH.to_pyg()), 'is_undirected=True'),
    ([GRAPH.to_pyg()]*3, 'the three results of RandomLinkSplit'),
    (RandomLinkSplit(num_val=0., num_test=.1, is_undirected=True)(GRAPH.to_pyg()), 'above 0'),
    ([HeteroData()]*3, 'several relations')])
def test_wrong_splits_of_pyg(parts, message):
    with pytest.raises(InputError, match=message): split_from_pyg(*parts)


def test_small_graphs_say_which_option_helps():
    star = graph_from_edges([(0, i) for i in range(1, 30)])
    ring = graph_from_edges([(v, (v + 1) % 10) for v in range(10)])
    complete = graph_from_edges([(v, u) for v in range(12) for u in range(v)])
    with pytest.raises(InputError, match='num_val and num_test above 0.10'): split_links(ring)
    with pytest.raises(InputError, match='candidates=7 .--candidates 7.'): split_links(ring, .2, .2)
    assert split_links(ring, .2, .2, candidates=7).candidates == 7
    for graph in (star, complete):
        with pytest.raises(InputError, match='nothing to predict'): split_links(graph)


def test_many_links_are_read_and_split_by_keys(tmp_path):
    "Processor time is bounded loosely; what it was before is ten times that"
    import time
    ends = np.random.default_rng(0).integers(30_000, size=(300_000, 2))
    np.savetxt(tmp_path/'links.csv', ends, fmt='%d', delimiter=',')
    start = time.process_time()
    graph = load_graph(tmp_path/'links.csv')
    split = split_links(graph)
    assert time.process_time() - start < 2.5
    expected = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], 1), axis=0)
    assert np.array_equal(graph.links.numpy(), expected)
    hidden = torch.cat([split.val, split.test])[:, :2].sort(1).values.unique(dim=0)
    both = torch.cat([split.train, hidden]).unique(dim=0)
    assert torch.equal(both, graph.links)
