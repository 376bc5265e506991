"The book as a whole: stale files are found, notebooks are well formed."
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT/'tools'))
import book  # noqa: E402

NOTEBOOKS = sorted((ROOT/'nbs').glob('*.ipynb'))


@pytest.fixture
def copy(tmp_path):
    "The parts of the project that `book.check` reads"
    for part in ('nbs', 'dmns_nb'):
        shutil.copytree(ROOT/part, tmp_path/part, symlinks=True, ignore=shutil.ignore_patterns('.*', '__pycache__'))
    for part in ('settings.ini', '_quarto.yml', 'README.md'): shutil.copy(ROOT/part, tmp_path/part)
    return tmp_path


@pytest.mark.parametrize('spoil, complaint', [
    (lambda p: (p/'dmns_nb'/'ranking.py').write_text('x = 1\n'), 'ranking.py: not what its notebook exports'),
    (lambda p: (p/'dmns_nb'/'orphan.py').write_text('x = 1\n'), 'orphan.py: no notebook exports it'),
    (lambda p: (p/'dmns_nb'/'graphs.py').unlink(), 'graphs.py: not exported'),
    (lambda p: (p/'README.md').write_text('old'), 'README.md: not what'),
    (lambda p: spoil_notebook(p/'nbs'/'02_ranking.ipynb'), '02_ranking.ipynb: not clean'),
], ids=['edited module', 'orphan module', 'missing module', 'old README', 'dirty notebook'])
def test_stale_files_are_found(copy, spoil, complaint):
    spoil(copy)
    with pytest.raises(SystemExit, match=re.escape(complaint)): book.check(copy)


def spoil_notebook(path):
    nb = json.loads(path.read_text())
    next(c for c in nb['cells'] if c['cell_type'] == 'code')['execution_count'] = 7
    path.write_text(json.dumps(nb, indent=1))


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_well_formed(path):
    nb = json.loads(path.read_text(encoding='utf-8'))
    assert path.stat().st_size < 600_000
    for i, cell in enumerate(nb['cells']):
        assert isinstance(cell['source'], list), f'cell {i}: source must be a list of lines'
        source = ''.join(cell['source'])
        if cell['cell_type'] == 'code':
            pictures = [o for o in cell['outputs'] if 'image/png' in o.get('data', {})]
            assert not pictures or '#| fig-alt:' in source, f'cell {i}: a picture without alt text'
            assert not any(o['output_type'] == 'error' for o in cell['outputs']), f'cell {i}: saved with an error'
            assert not any(o.get('name') == 'stderr' for o in cell['outputs']), f'cell {i}: saved with a warning'
        else:
            for block in re.finditer(r'\$\$.*?\$\$', source, re.S):
                before, after = source[:block.start()], source[block.end():]
                assert not before or before.endswith('\n\n'), f'cell {i}: no blank line before {block[0]}'
                assert not after or after.startswith('\n\n'), f'cell {i}: no blank line after {block[0]}'


def test_equation_numbers_are_unique():
    tags = [tag for p in NOTEBOOKS for tag in re.findall(r'\\\\tag\{([^}]*)\}', p.read_text(encoding='utf-8'))]
    assert len(tags) > 3 and len(tags) == len(set(tags))


def test_readme_shows_the_headline_of_the_results():
    from dmns_nb.results import Book, headline
    table = headline(Book(ROOT/'results')).to_string()
    squeeze = lambda text: re.sub(r'\s+', ' ', text)
    readme = squeeze((ROOT/'README.md').read_text(encoding='utf-8'))
    for row in table.splitlines()[1:]:
        for figure in re.findall(r'0\.\d+ ± 0\.\d+', row): assert figure in readme, row
