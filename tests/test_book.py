"The book as a whole: stale files are found, notebooks are well formed."
import ast
import json
import re
import shutil
import subprocess
from pathlib import Path
from string import ascii_uppercase

import book
import pytest

ROOT = Path(__file__).resolve().parent.parent

NOTEBOOKS = book.notebooks(ROOT)
CHAPTERS = [p for p in NOTEBOOKS if p.stem != 'index']
LESSONS = [p for p in CHAPTERS if p.stem[0].isdigit()]
APPENDIX = [p for p in CHAPTERS if not p.stem[0].isdigit()]
by_stem = dict(ids=lambda p: p.stem)


@pytest.fixture
def copy(tmp_path):
    "The parts of the project that `book.check` reads"
    for part in ('nbs', 'dmns_nb'):
        shutil.copytree(ROOT/part, tmp_path/part, symlinks=True,
                        ignore=shutil.ignore_patterns('.*', '__pycache__'))
    for part in ('settings.ini', '_quarto.yml', 'README.md'): shutil.copy(ROOT/part, tmp_path/part)
    return tmp_path


def test_stale_files_are_found(copy):
    (copy/'dmns_nb'/'ranking.py').write_text('x = 1\n')
    (copy/'dmns_nb'/'orphan.py').write_text('x = 1\n')
    (copy/'dmns_nb'/'graphs.py').unlink()
    (copy/'README.md').write_text('old')
    spoil_notebook(copy/'nbs'/'03_ranking.ipynb')
    with pytest.raises(SystemExit) as found: book.check(copy)
    complaints = {line.strip() for line in str(found.value).splitlines()}
    assert {'dmns_nb/graphs.py: not exported', 'dmns_nb/orphan.py: no notebook exports it',
            'dmns_nb/ranking.py: not what its notebook exports', 'nbs/03_ranking.ipynb: not clean',
            'README.md: not what nbs/index.ipynb gives'} <= complaints


def spoil_notebook(path):
    nb = json.loads(path.read_text())
    next(c for c in nb['cells'] if c['cell_type'] == 'code')['execution_count'] = 7
    path.write_text(json.dumps(nb, indent=1))


@pytest.mark.parametrize('path', NOTEBOOKS, **by_stem)
def test_notebook_is_well_formed(path):
    nb = json.loads(path.read_text(encoding='utf-8'))
    assert path.stat().st_size < 600_000
    for i, cell in enumerate(nb['cells']):
        assert isinstance(cell['source'], list), f'cell {i}: source must be a list of lines'
        source = ''.join(cell['source'])
        if cell['cell_type'] == 'code':
            outputs = cell['outputs']
            pictures = [o for o in outputs if 'image/png' in o.get('data', {})]
            described = '#| fig-alt:' in source
            assert bool(pictures) == described, f'cell {i}: picture and alt text do not go together'
            assert not any(o['output_type'] == 'error' for o in outputs), f'cell {i}: an error'
            assert not any(o.get('name') == 'stderr' for o in outputs), f'cell {i}: a warning'
        else:
            for block in re.finditer(r'\$\$.*?\$\$', source, re.S):
                before, after, what = source[:block.start()], source[block.end():], block[0]
                assert not before or before.endswith('\n\n'), f'cell {i}: no blank before {what}'
                assert not after or after.startswith('\n\n'), f'cell {i}: no blank after {what}'


def cells(path, kind):
    nb = json.loads(path.read_text(encoding='utf-8'))
    return [''.join(c['source']) for c in nb['cells'] if c['cell_type'] == kind]


def number(path):
    "The number or letter in the name of a chapter's file, as it is in the title"
    return path.stem.split('_')[0].lstrip('0')


@pytest.mark.parametrize('path', CHAPTERS, **by_stem)
def test_title_has_the_number_of_the_file(path):
    first = cells(path, 'markdown')[0].strip()
    title = re.fullmatch(r'# (\d+|[A-Z]{1,2})\. \S[^\n]*\n\n> \S[^\n]+', first)
    assert title, 'the first cell is "# N. Title", an empty line, and "> one sentence"'
    assert title[1] == number(path)


def test_chapters_are_numbered_without_gaps():
    assert [number(p) for p in LESSONS] == [str(n) for n in range(1, 25)]
    assert all(re.match(r'\d\d_', p.name) for p in LESSONS)


def test_the_appendix_has_letters_without_gaps():
    letters = [*ascii_uppercase, *(f'A{letter}' for letter in ascii_uppercase)]
    assert [number(p) for p in APPENDIX] == letters[:len(APPENDIX)] and APPENDIX


def code_lines(source):
    "The lines of a cell that are neither empty nor comments"
    return [line for line in source.splitlines() if line.strip() and line.lstrip()[0] != '#']


def imports(source):
    return [line for line in code_lines(source) if re.match(r'(import|from)\s', line)]


def mixes_imports(source):
    "Whether a cell has imports and other code; lines that are indented belong to the one above"
    begins = re.compile(r'import|from|[ \t)]|_all_')
    others = [line for line in code_lines(source) if not begins.match(line)]
    return bool(imports(source) and others)


def hides_definition(source):
    "Whether a cell defines something for the module that the reader does not see"
    hidden = re.match(r'#\|\s*export\s', source) and not imports(source)
    return bool(hidden and re.search(r'^(def|class|@)', source, re.M))


@pytest.mark.parametrize('path', NOTEBOOKS, **by_stem)
def test_code_lines_are_short(path):
    lines = [line for source in cells(path, 'code') for line in source.splitlines()]
    assert not [line for line in lines if len(line) > 100 and not line.startswith('#|')]


@pytest.mark.parametrize('path', NOTEBOOKS, **by_stem)
def test_imports_stand_alone(path):
    assert not [source for source in cells(path, 'code') if mixes_imports(source)]


@pytest.mark.parametrize('path', LESSONS, **by_stem)
def test_lessons_show_what_they_export(path):
    assert not [source for source in cells(path, 'code') if hides_definition(source)]


def test_mixed_imports_and_hidden_definitions_are_found():
    assert mixes_imports('import os\nx = 1') and mixes_imports('x = 1\nfrom os import path')
    assert not mixes_imports('#| export\nfrom os import (path,\n    sep)\n\nimport sys  # here')
    assert not mixes_imports('def f():\n    import os')
    assert hides_definition('#| export\ndef f(): pass') and hides_definition('#|export\n@patch\n')
    assert not hides_definition('#| exports\ndef f(): pass')
    assert not hides_definition('#| export\nx = 1') and not hides_definition('def f(): pass')


def tags(path):
    "The numbers of a chapter's equations, in order"
    return re.findall(r'\\tag\{([^}]*)\}', '\n'.join(cells(path, 'markdown')))


def equations():
    "Where each numbered equation is"
    return [(tag, path) for path in NOTEBOOKS for tag in tags(path)]


def test_equation_numbers_are_unique():
    found = [tag for tag, _ in equations()]
    assert len(found) > 50 and len(found) == len(set(found))


@pytest.mark.parametrize('path', CHAPTERS, **by_stem)
def test_equations_are_numbered_by_chapter_without_gaps(path):
    found = tags(path)
    assert found == [f'{number(path)}.{k}' for k in range(1, len(found) + 1)]


NUMBER = r'\(((?:\d+|[A-Z]{1,2})\.\d+)\)'


def mentions(text):
    "Numbers of equations that a text mentions, alone or in a list"
    lists = re.finditer(rf'\beqs?\. {NUMBER}(?:(?:,| and| to|–)+ ?{NUMBER})*', text)
    return [tag for found in lists for tag in re.findall(NUMBER, found[0])]


def test_every_mention_of_an_equation_is_one_that_exists():
    known = {tag for tag, _ in equations()}
    for path in NOTEBOOKS:
        for text in cells(path, 'markdown') + cells(path, 'code'):
            for tag in mentions(text): assert tag in known, f'{path.name}: eq. ({tag})'


def test_mentions_of_equations_are_found():
    text = 'By eq. (1.2), eqs. (3.4) and (3.5), eqs. (4.1), (4.2) and (4.3), eq. (A.1); not (9.9)'
    assert mentions(text) == ['1.2', '3.4', '3.5', '4.1', '4.2', '4.3', 'A.1']


def test_equations_link_to_the_page_that_has_them():
    from nbdev.doclinks import _nbpath2html
    script = (ROOT/'nbs'/'equations.html').read_text(encoding='utf-8')
    pages = dict(re.findall(r"(\d+): '(\w+)'", script))
    there = {tag.split('.')[0]: _nbpath2html(path).stem for tag, path in equations()}
    assert pages == there


def anchors(path):
    "The headings of a notebook as Quarto names them"
    fence = re.compile(r'^```.*?^```', re.S | re.M)
    texts = [fence.sub('', text) for text in cells(path, 'markdown')]
    heads = [h for text in texts for h in re.findall(r'^#{1,6} +(.+?) *$', text, re.M)]
    plain = (re.sub(r'[`*$\\]|\]\([^)]*\)|\[', '', h).lower() for h in heads)
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
        elif anchor and there.suffix == '.ipynb' and anchor not in anchors(there):
            yield f'{target}: no such heading'
    for tag in re.findall(r'<img[^>]*>', text):
        if not re.search(r'alt="[^"]+"', tag): yield f'{tag}: a picture without alt text'


@pytest.mark.parametrize('path', [*NOTEBOOKS, *ROOT.glob('*.md')], ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    if path.suffix == '.md': text = path.read_text(encoding='utf-8')
    else: text = '\n\n'.join(cells(path, 'markdown'))
    assert not list(broken_links(path, text))


def test_broken_links_are_found():
    page = ROOT/'nbs'/'02_splits.ipynb'
    text = ('[a](none.ipynb) [b](03_ranking.ipynb#nowhere) ![](images/card.png) '
            '[c](03_ranking.ipynb) `[d](x)` [e](#hiding-links) <img src="x">')
    bad = ['none.ipynb', '03_ranking.ipynb#nowhere', 'images/card.png', '<img src="x">']
    assert [b.split(':')[0] for b in broken_links(page, text)] == bad


@pytest.mark.parametrize('path', NOTEBOOKS, **by_stem)
def test_nothing_that_the_site_cannot_show(path):
    nb = json.loads(path.read_text(encoding='utf-8'))
    assert 'widgets' not in nb['metadata']
    for i, cell in enumerate(nb['cells']):
        shown = [kind for o in cell.get('outputs', []) for kind in o.get('data', {})]
        live = [kind for kind in shown if 'widget' in kind or 'javascript' in kind]
        assert not live, f'cell {i}: {live}'
    if not any(text.startswith('---') for text in cells(path, 'raw')):
        title, *rest = cells(path, 'markdown')[0].splitlines()
        assert title.startswith('# '), 'the first cell is the title'
        dropped = [line for line in rest if line and not line.startswith('> ')]
        assert not dropped, 'nbdev drops what else the cell of the title holds'


def site():
    import yaml
    return yaml.safe_load((ROOT/'_quarto.yml').read_text(encoding='utf-8'))


def sidebar():
    entries = site()['website']['sidebar']['contents']
    return [page for e in entries for page in ([e] if isinstance(e, str) else e['contents'])]


def test_the_sidebar_has_every_chapter_once():
    pages = sidebar()
    assert len(pages) == len(set(pages)) and sorted(pages) == sorted(p.name for p in NOTEBOOKS)


def test_the_sidebar_has_the_chapters_in_order():
    assert sidebar() == ['index.ipynb', *(p.name for p in LESSONS), *(p.name for p in APPENDIX)]


def test_files_that_the_site_names_are_there():
    html, web = site()['format']['html'], site()['website']
    for name in (html['css'], html['include-after-body'], web['favicon'], web['image']):
        assert (ROOT/'nbs'/name).is_file(), name
    assert web['image-alt'] and set(html['theme']) == {'light', 'dark'} and web['search']
    for name in ('favicon.png', 'card.png'):
        assert (ROOT/'nbs'/'images'/name).stat().st_size < 60_000


def test_the_paper_is_cited():
    text = '\n'.join(cells(ROOT/'nbs'/'index.ipynb', 'markdown'))
    assert re.search(r'```bibtex\n@inproceedings\{.*10\.1145/3589334\.3645650.*?\n```', text, re.S)


def test_readme_shows_the_headline_of_the_results():
    from dmns_nb.tables import headline, load_records, pair_headline, paper_headline
    records, readme = load_records(ROOT/'results'), (ROOT/'README.md').read_text(encoding='utf-8')
    for made in (paper_headline, headline, pair_headline):
        assert book.markdown_table(made(records).to_html()) in readme


@pytest.mark.parametrize('path', LESSONS, **by_stem)
def test_lessons_end_with_exercises_that_have_answers(path):
    markdown, code = ('\n'.join(cells(path, kind)) for kind in ('markdown', 'code'))
    assert '## Exercises' in markdown
    titles = re.findall(r'^\*\*Exercise (\d)\. \S', markdown, re.M)
    assert titles == ['1', '2', '3', '4'][:len(titles)] and len(titles) >= 2
    answers = [c for c in cells(path, 'code') if '#| code-summary: Answer' in c]
    assert len(answers) == len(titles) and '#| slow' not in code
    for answer in answers:
        assert '#| code-fold: true' in answer and re.search(r'\bassert |\btest_', answer)
        definition, *rest = ast.parse(answer).body
        assert isinstance(definition, ast.FunctionDef) and definition.name == 'answer'
        assert all(isinstance(node, ast.Expr) for node in rest), 'an answer keeps to itself'


def test_every_saved_result_is_used_once_and_every_use_has_one():
    saved = json.loads((ROOT/'dmns_nb'/'data'/'saved.json').read_text(encoding='utf-8'))
    used = [name for path in LESSONS + APPENDIX if path.stem != 'P_saved'
            for source in cells(path, 'code')
            for name in re.findall(r'run_or_load\((\w+)', source)]
    assert sorted(used) == sorted(saved) and used


@pytest.mark.parametrize('path', NOTEBOOKS, **by_stem)
def test_folded_cells_are_collapsed_in_jupyterlab(path):
    nb = json.loads(path.read_text(encoding='utf-8'))
    for cell in nb['cells']:
        source = ''.join(cell['source'])
        folded = re.search(r'^#\| (code-fold: true|hide|echo: false)$', source, re.M)
        hidden = cell['metadata'].get('jupyter', {}).get('source_hidden', False)
        assert hidden == bool(folded and cell['cell_type'] == 'code')


def fake_run(path, output):
    "Change the first output of a notebook, as running it by hand does"
    nb = json.loads(path.read_text(encoding='utf-8'))
    next(c for c in nb['cells'] if c['cell_type'] == 'code' and c['outputs'])['outputs'] = [output]
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')


PRINTED = dict(output_type='stream', name='stdout', text=['other\n'])
ERROR = dict(output_type='error', ename='KeyError', evalue="'x'", traceback=[])


@pytest.mark.parametrize('output', [PRINTED, ERROR], ids=['printed', 'error'])
def test_running_by_hand_is_undone_and_found(copy, output):
    path = copy/'nbs'/'03_ranking.ipynb'
    before = path.read_bytes()
    commit = ['git', '-c', 'user.name=x', '-c', 'user.email=x@example.org', 'commit', '-qm', 'x']
    for command in (['git', 'init', '-q'], ['git', 'add', '.'], commit):
        subprocess.run(command, cwd=copy, check=True)
    fake_run(path, output)
    with pytest.raises(SystemExit, match='03_ranking.ipynb: not the outputs'): book.check(copy)
    assert book.settle(path) is None and path.read_bytes() == before
    text = path.read_text(encoding='utf-8')
    path.write_text(text.replace('def ', 'def  ', 1), encoding='utf-8')   # and edited
    fake_run(path, output)
    expected = "ended in KeyError: 'x'" if output is ERROR else 'run `make run NB=03_ranking`'
    assert expected in book.settle(path)


def test_badges_lead_to_this_repository_and_chapter():
    import nbformat
    path = ROOT/'nbs'/'03_ranking.ipynb'
    text = book.badges(path.stem, nbformat.read(path, as_version=4)).source
    assert 'colab.research.google.com/github/dmns-nb/dmns_nb/blob/main/nbs/03_ranking.ipynb' in text
    assert 'mybinder.org' in text and re.search(r'\d+ min to read, about \d+ s to run', text)
