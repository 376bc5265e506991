"Every message of the package is met in a cell of the chapter that raises it, or in a test."
import ast
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from dmns_nb.checkpoints import load_saved, save_atomically
from dmns_nb.checks import InputError, pick_device
from dmns_nb.ddpm import make_schedule, noise_loss
from dmns_nb.encoders import Encoder, propagation
from dmns_nb.experiments import find_experiments
from dmns_nb.graphs import graph_from_edges, synth_graph
from dmns_nb.methods import Run, fit
from dmns_nb.predictor import LinkPredictor
from dmns_nb.ranking import expected_map, ranks
from dmns_nb.settings import Config, parse_setting
from dmns_nb.splits import split_links

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(p for p in (ROOT/'dmns_nb').glob('*.py') if not p.name.startswith('_'))

GRAPH, WRONG = synth_graph(), torch.tensor([[torch.nan, 1.]])
DIVERGED = 'scores hold NaN or infinite values: training has diverged'


def leaky():
    split = split_links(GRAPH)
    replace(split, val=split.test).check()


def without_cuda():
    with mock.patch('torch.cuda.device_count', return_value=0): pick_device('cuda')


def not_a_dict():
    with tempfile.TemporaryDirectory() as folder:
        save_atomically([1], f'{folder}/list')
        load_saved(f'{folder}/list', 'run')


def other_weights():
    with tempfile.TemporaryDirectory() as folder:
        split = split_links(GRAPH)
        run = fit(split, Config('gcn', 'compact', epochs=1))
        run.model.decoder.weight = None
        run.save(f'{folder}/run')
        Run.load(f'{folder}/run', split)



# module → what goes wrong, and the message: those that no cell shows
CASES = {
    'checkpoints': [(not_a_dict, 'list is not a run of this package')],
    'checks': [(without_cuda, "there is no CUDA device here: use device='auto' or 'cpu'"),
               (lambda: pick_device('mps'), "device cannot be 'mps'")],
    'ddpm': [(lambda: make_schedule('linaer'),
              "schedule cannot be 'linaer'; did you mean 'linear'?"),
             (lambda: noise_loss(None, WRONG, make_schedule(), error='square'),
              "error cannot be 'square'; did you mean 'squared'?")],
    'encoders': [(lambda: propagation(GRAPH, 'max'), "norm cannot be 'max'; did you mean 'mean'?"),
                 (lambda: Encoder(4, 'mlp'),
                  "encoder cannot be 'mlp': choose one of gcn, gat, sage"),
                 (lambda: Encoder(4, unit='some'),
                  "unit cannot be 'some'; did you mean 'none'?")],
    'experiments': [(lambda: find_experiments(['tabel2']),
                     "an experiment cannot be 'tabel2'; did you mean 'table2'?")],
    'files': [(lambda: graph_from_edges([[0, 1], [2]]),
               'edges must be rows of two nodes each, and some row has more or fewer'),
              (lambda: graph_from_edges([]),
               'the graph has no links: nothing can be learned from it'),
              (lambda: graph_from_edges([[0, 1, 2]]),
               'edges must be rows of two nodes each, not of shape (1, 3)'),
              (lambda: graph_from_edges([[0, -1]]),
               'node ids start at 0, but an edge names node -1'),
              (lambda: graph_from_edges([[0, 1]], torch.eye(3), num_nodes=4),
               "the number of nodes is not clear: {'features': 3, 'num_nodes': 4}"),
              (lambda: graph_from_edges([[0, 7]]), 'node ids go up to 7, but only 2 occur: '),
              (lambda: graph_from_edges([[0, 7]], num_nodes=5),
               'an edge names node 7, but there are only 5 nodes (0 to 4)')],
    'methods': [(other_weights, 'do not fit its settings: train again')],
    'predictor': [(lambda: LinkPredictor(None, None, (), penalty='sigmoidal'),
                   "penalty cannot be 'sigmoidal'; did you mean 'sigmoid'?")],
    'ranking': [(lambda: expected_map(WRONG, 1), DIVERGED), (lambda: ranks(WRONG), DIVERGED)],
    'settings': [(lambda: Config('dmnns'), "method cannot be 'dmnns'; did you mean 'dmns'?"),
                 (lambda: Config(preset='papers'),
                  "preset cannot be 'papers'; did you mean 'paper'?"),
                 (lambda: Config('dmns', samplers=('unifrom',)),
                  "a sampler cannot be 'unifrom'; did you mean 'uniform'?"),
                 (lambda: Config(epochs='ten'), "epochs must be a whole number, not 'ten'"),
                 (lambda: Config(bias=1), 'bias must be True or False, not 1'),
                 (lambda: parse_setting('bias=perhaps'),
                  "bias must be True or False, not 'perhaps'")],
    'splits': [(leaky, 'leak: the pair (')]}


@pytest.mark.parametrize('wrong, text', [case for cases in CASES.values() for case in cases],
                         ids=lambda x: x if isinstance(x, str) else '')
def test_messages_that_no_cell_shows(wrong, text):
    with pytest.raises(InputError, match=re.escape(text)): wrong()


def pieces(node):
    "The fixed parts of the text that an expression gives"
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return [text for text in texts if isinstance(text, str) and text.strip(' ,')]


TEXTS = (ast.Constant, ast.JoinedStr, ast.IfExp, ast.BinOp)


def texts_by_name(function):
    "Name → fixed parts of the texts that a function puts under it, such as a hint"
    found: dict = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, TEXTS): continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).extend(pieces(node.value))
    return found


def calls(node, called, names=None):
    "Calls of a function, each with the texts that are named around it"
    if isinstance(node, ast.FunctionDef): names = texts_by_name(node)
    if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == called:
        yield node, names or {}
    for child in ast.iter_child_nodes(node): yield from calls(child, called, names)


def messages(source):
    "Line and fixed parts of each `InputError(…)`"
    for call, names in calls(ast.parse(source), 'InputError'):
        used = [n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)]
        yield call.lineno, pieces(call.args[0]) + [p for name in used for p in names.get(name, ())]


def choices(source):
    "Line and beginning of the message of each `one_of('what', …)`"
    for call, _ in calls(ast.parse(source), 'one_of'):
        what = call.args[0]
        if isinstance(what, ast.Constant): yield call.lineno, f'{what.value} cannot be '


def strings(source):
    "All texts in some code"
    try: tree = ast.parse(re.sub(r'^[%!].*$', '', source, flags=re.M))
    except SyntaxError: return set()
    constants = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return {text for text in constants if isinstance(text, str)}


def checks(module):
    "Texts in the cells of the module's chapter that are not exported, and in the other tests"
    source = module.read_text(encoding='utf-8')
    notebook = ROOT/'nbs'/re.search(r'\.\./nbs/(\S+\.ipynb)', source)[1]
    nb = json.loads(notebook.read_text(encoding='utf-8'))
    cells = [''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'code']
    found = set().union(*(strings(c) for c in cells if not re.match(r'\s*#\|\s*export', c)))
    others = [p for p in (ROOT/'tests').glob('*.py') if p != Path(__file__)]
    return found.union(*(strings(p.read_text(encoding='utf-8')) for p in others))


def met(parts, texts):
    "Whether a text of several words is in a part, shares ten characters with it, or has all parts"
    whole = '.+'.join(map(re.escape, parts))
    if len(''.join(parts)) >= 10 and any(re.search(whole, text) for text in texts): return True
    blob = '\n'.join(texts)
    for part in parts:
        if any(' ' in text.strip() and text in part for text in texts): return True
        if any(part[i:i+10] in blob for i in range(len(part) - 9)): return True
    return False


@pytest.mark.parametrize('module', MODULES, ids=lambda p: p.stem)
def test_every_message_is_met(module):
    texts = {t.strip() for t in checks(module) if 4 <= len(t) < 200}
    texts |= {text for _, text in CASES.get(module.stem, ())}
    source = module.read_text(encoding='utf-8')
    unmet = [f'{module.name}, line {line}: {" … ".join(parts)}'
             for line, parts in messages(source) if not met(parts, texts)]
    unmet += [f'{module.name}, line {line}: {start}…' for line, start in choices(source)
              if not any(start.strip() in text for text in texts)]
    assert not unmet, '\n'.join(unmet)


def test_an_unmet_message_is_found():
    source = "if x: raise InputError(f'the moon {x} is full: wait' + ('; did you' if y else ''))"
    (line, parts), = messages(source)
    assert line == 1 and parts == ['the moon ', ' is full: wait', '; did you']
    assert met(parts, {'is full: wait'}) and met(parts, {'the moon'})
    assert not met(parts, {'a full moon', 'did'})
    (line, parts), = messages("def f(x):\n  hint = f'; look {x} up'\n  raise InputError(x + hint)")
    assert line == 3 and parts == ['; look ', ' up']
    assert met([' must be ', ', not '], {'x must be 1, not 2'}) and not met([' must be '], {'be 1'})
    (line, start), = choices("one_of('moon', x, ('full', 'new')), one_of(name, x, y)")
    assert line == 1 and start == 'moon cannot be '


def test_messages_are_one_line_that_does_not_shout():
    for module in MODULES:
        for line, parts in messages(module.read_text(encoding='utf-8')):
            text = ''.join(parts)
            assert len(text) < 220 and '\n' not in text, (module.name, line)
            assert '!' not in text and not text.endswith('.'), (module.name, line)
