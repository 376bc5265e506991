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

from dmns_nb.encoders import Encoder, propagation
from dmns_nb.experiments import Job, load_job_split
from dmns_nb.graphs import InputError, split_links, synth_graph
from dmns_nb.models import expected_map
from dmns_nb.ranking import ranks
from dmns_nb.settings import Config, load_saved, pick_device, save_atomically

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(p for p in (ROOT/'dmns_nb').glob('*.py') if not p.name.startswith('_'))

GRAPH, WRONG = synth_graph(), torch.tensor([[torch.nan, 1.]])


def leaky():
    split = split_links(GRAPH)
    replace(split, val=split.test).check()


def without_mps():
    with mock.patch('torch.backends.mps.is_available', return_value=False): pick_device('mps')


def not_a_dict():
    with tempfile.TemporaryDirectory() as folder:
        save_atomically([1], f'{folder}/list')
        load_saved(f'{folder}/list', 'run')


def no_released_split():
    with tempfile.TemporaryDirectory() as folder, mock.patch('dmns_nb.experiments.load_graph', return_value=GRAPH):
        load_job_split(Job('cora', Config()), folder)


# module → what goes wrong, and the message: those that no cell shows
CASES = {
    'encoders': [(lambda: propagation(GRAPH, 'max'), "norm must be 'sym', 'row' or 'mean', not 'max'"),
                 (lambda: Encoder(4, 'mlp'), "the encoder must be 'gcn', 'gat' or 'sage', not 'mlp'"),
                 (lambda: Encoder(4, unit='some'), "unit must be 'none', 'last' or 'all', not 'some'")],
    'experiments': [(no_released_split, 'the released split of cora is not at ')],
    'graphs': [(leaky, 'leak: the pair (')],
    'models': [(lambda: expected_map(WRONG, 1), 'scores hold NaN or infinite values: training has diverged')],
    'ranking': [(lambda: ranks(WRONG), 'scores hold NaN or infinite values: training has diverged')],
    'settings': [(without_mps, "there is no MPS device here: use device='auto' or 'cpu'"), (not_a_dict, 'list is not a run of this package')]}


@pytest.mark.parametrize('wrong, text', [case for cases in CASES.values() for case in cases], ids=lambda x: x if isinstance(x, str) else '')
def test_messages_that_no_cell_shows(wrong, text):
    with pytest.raises(InputError, match=re.escape(text)): wrong()


def pieces(node):
    "The fixed parts of the text that an expression gives"
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.strip(' ,')]


def messages(source):
    "Line and fixed parts of each `InputError(…)`"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'InputError': yield node.lineno, pieces(node.args[0])


def strings(source):
    "All texts in some code"
    try: tree = ast.parse(re.sub(r'^[%!].*$', '', source, flags=re.M))
    except SyntaxError: return set()
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def checks(module):
    "Texts in the cells of the module's chapter that are not exported, and in the other tests"
    notebook = ROOT/'nbs'/re.search(r'\.\./nbs/(\S+\.ipynb)', module.read_text(encoding='utf-8'))[1]
    cells = [''.join(c['source']) for c in json.loads(notebook.read_text(encoding='utf-8'))['cells'] if c['cell_type'] == 'code']
    found = set().union(*(strings(c) for c in cells if not re.match(r'\s*#\|\s*export', c)))
    return found.union(*(strings(p.read_text(encoding='utf-8')) for p in (ROOT/'tests').glob('*.py') if p != Path(__file__)))


def met(parts, texts):
    "Whether a text is found in a part, if it is of several words, or shares ten characters with it"
    blob = '\n'.join(texts)
    for part in parts:
        if any(' ' in text.strip() and text in part for text in texts): return True
        if any(part[i:i+10] in blob for i in range(len(part) - 9)): return True
    return False


@pytest.mark.parametrize('module', MODULES, ids=lambda p: p.stem)
def test_every_message_is_met(module):
    texts = {t.strip() for t in checks(module) if 4 <= len(t) < 200} | {text for _, text in CASES.get(module.stem, ())}
    source = module.read_text(encoding='utf-8')
    unmet = [f'{module.name}, line {line}: {" … ".join(parts)}' for line, parts in messages(source) if not met(parts, texts)]
    assert not unmet, '\n'.join(unmet)


def test_an_unmet_message_is_found():
    (line, parts), = messages("if x: raise InputError(f'the moon {x} is full: wait' + ('; did you' if y else ''))")
    assert line == 1 and parts == ['the moon ', ' is full: wait', '; did you']
    assert met(parts, {'is full: wait'}) and met(parts, {'the moon'}) and not met(parts, {'a full moon', 'did'})


def test_messages_are_one_line_that_does_not_shout():
    for module in MODULES:
        for line, parts in messages(module.read_text(encoding='utf-8')):
            text = ''.join(parts)
            assert len(text) < 220 and '\n' not in text and '!' not in text and not text.endswith('.'), (module.name, line)
