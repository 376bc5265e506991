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
            assert bool(pictures) == ('#| fig-alt:' in source), f'cell {i}: a picture without alt text, or alt text without its picture'
            assert not any(o['output_type'] == 'error' for o in cell['outputs']), f'cell {i}: saved with an error'
            assert not any(o.get('name') == 'stderr' for o in cell['outputs']), f'cell {i}: saved with a warning'
        else:
            for block in re.finditer(r'\$\$.*?\$\$', source, re.S):
                before, after = source[:block.start()], source[block.end():]
                assert not before or before.endswith('\n\n'), f'cell {i}: no blank line before {block[0]}'
                assert not after or after.startswith('\n\n'), f'cell {i}: no blank line after {block[0]}'


def cells(path, kind):
    return [''.join(c['source']) for c in json.loads(path.read_text(encoding='utf-8'))['cells'] if c['cell_type'] == kind]


def equations():
    "Where each numbered equation is"
    return [(tag, p) for p in NOTEBOOKS for text in cells(p, 'markdown') for tag in re.findall(r'\\tag\{([^}]*)\}', text)]


def test_equation_numbers_are_unique():
    tags = [tag for tag, _ in equations()]
    assert len(tags) > 50 and len(tags) == len(set(tags))


def test_every_mention_of_an_equation_is_one_that_exists():
    tags = {tag for tag, _ in equations()}
    for path in NOTEBOOKS:
        for text in cells(path, 'markdown') + cells(path, 'code'):
            for tag in re.findall(r'eqs?\. \((\d+\.\d+)\)', text): assert tag in tags, f'{path.name}: eq. ({tag})'


def test_equations_link_to_the_page_that_has_them():
    from nbdev.doclinks import _nbpath2html
    script = (ROOT/'nbs'/'equations.html').read_text(encoding='utf-8')
    pages = dict(re.findall(r"(\d+): '(\w+)'", script))
    there = {tag.split('.')[0]: _nbpath2html(path).stem for tag, path in equations()}
    assert pages == there


def anchors(path):
    "The headings of a notebook as Quarto names them"
    texts = [re.sub(r'^```.*?^```', '', text, flags=re.S | re.M) for text in cells(path, 'markdown')]
    heads = [h for text in texts for h in re.findall(r'^#{1,6} +(.+?) *$', text, re.M)]
    plain = (re.sub(r'[`*_$\\]|\]\([^)]*\)|\[', '', h).lower() for h in heads)
    return {re.sub(r'^[^a-z]+', '', re.sub(r'[^\w .-]', '', h).replace(' ', '-')) for h in plain}


def links(text):
    "Link texts, whether each is a picture, and targets, code left out"
    text = re.sub(r'^(```+).*?^\1', '', text, flags=re.S | re.M)
    return re.findall(r'(!?)\[([^]]*)\]\(([^)\s]+)(?: "[^"]*")?\)', re.sub(r'`[^`\n]*`', '', text))


def broken_links(path, text):
    for picture, label, target in links(text):
        if picture and not label.strip(): yield f'{target}: a picture without alt text'
        if re.match(r'https?://|mailto:', target): continue
        file, _, anchor = target.partition('#')
        there = path.parent/file if file else path
        if not there.is_file(): yield f'{target}: no such file'
        elif anchor and there.suffix == '.ipynb' and anchor not in anchors(there): yield f'{target}: no such heading'
    for tag in re.findall(r'<img[^>]*>', text):
        if not re.search(r'alt="[^"]+"', tag): yield f'{tag}: a picture without alt text'


@pytest.mark.parametrize('path', [*NOTEBOOKS, *ROOT.glob('*.md')], ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    text = path.read_text(encoding='utf-8') if path.suffix == '.md' else '\n\n'.join(cells(path, 'markdown'))
    assert not list(broken_links(path, text))


def test_broken_links_are_found():
    page = ROOT/'nbs'/'01_graphs.ipynb'
    text = '[a](none.ipynb) [b](02_ranking.ipynb#nowhere) ![](images/card.png) [c](02_ranking.ipynb) `[d](x)` [e](#hiding-links) <img src="x">'
    assert [b.split(':')[0] for b in broken_links(page, text)] == ['none.ipynb', '02_ranking.ipynb#nowhere', 'images/card.png', '<img src="x">']


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda p: p.stem)
def test_nothing_that_the_site_cannot_show(path):
    nb = json.loads(path.read_text(encoding='utf-8'))
    assert 'widgets' not in nb['metadata']
    for i, cell in enumerate(nb['cells']):
        shown = [kind for o in cell.get('outputs', []) for kind in o.get('data', {})]
        assert not any('widget' in kind or 'javascript' in kind for kind in shown), f'cell {i}: {shown}'
    if not any(text.startswith('---') for text in cells(path, 'raw')):
        title, *rest = cells(path, 'markdown')[0].splitlines()
        assert title.startswith('# '), 'the first cell is the title'
        assert all(not line or line.startswith('> ') for line in rest), 'nbdev drops what else the cell of the title holds'


def sidebar():
    import yaml
    entries = yaml.safe_load((ROOT/'_quarto.yml').read_text(encoding='utf-8'))['website']['sidebar']['contents']
    return [page for e in entries for page in ([e] if isinstance(e, str) else e['contents'])]


def test_the_sidebar_has_every_chapter_once():
    pages = sidebar()
    assert len(pages) == len(set(pages)) and sorted(pages) == sorted(p.name for p in NOTEBOOKS)


def test_files_that_the_site_names_are_there():
    import yaml
    site = yaml.safe_load((ROOT/'_quarto.yml').read_text(encoding='utf-8'))
    html, web = site['format']['html'], site['website']
    for name in (html['css'], html['include-after-body'], web['favicon'], web['image']): assert (ROOT/'nbs'/name).is_file(), name
    assert web['image-alt'] and set(html['theme']) == {'light', 'dark'} and web['search']
    for name in ('favicon.png', 'card.png'): assert (ROOT/'nbs'/'images'/name).stat().st_size < 60_000


def test_the_paper_is_cited():
    text = '\n'.join(cells(ROOT/'nbs'/'index.ipynb', 'markdown'))
    assert re.search(r'```bibtex\n@inproceedings\{.*10\.1145/3589334\.3645650.*?\n```', text, re.S)


def test_readme_shows_the_headline_of_the_results():
    from dmns_nb.results import Book, headline
    assert headline(Book(ROOT/'results')).to_string() in (ROOT/'README.md').read_text(encoding='utf-8')
