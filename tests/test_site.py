"""The site as nbdev hands it to Quarto: nbdev's processing runs and shows what it should.

Quarto itself is not needed. `problems` lists what is wrong with processed pages; it is asked
about the whole book once, and about small pages with one fault each.
"""
import ast
import json
import re
import shutil

import book
import preview
import pytest
import runall
import yaml

from test_book import NUMBER, ROOT, anchors, broken_links, cells, code_lines, mentions, tags


COLUMN = 100   # characters that fit in the column of the page
SITE = book.settings()['doc_host'] + book.settings()['doc_baseurl'] + '/'
SOURCE = f"{book.settings()['git_url']}/blob/{book.settings()['branch']}/"


# ---- what a processed page holds

def outputs(path):
    "The outputs of a page's cells"
    return [o for c in json.loads(path.read_text(encoding='utf-8'))['cells']
            for o in c.get('outputs', [])]


def text_outputs(path, kind):
    "The outputs of one kind, such as text/markdown"
    return [''.join(o['data'][kind]) for o in outputs(path) if kind in o.get('data', {})]


def printed(path):
    "What the page shows as plain text"
    plain = [o.get('text') or o['data']['text/plain'] for o in outputs(path)
             if o.get('text') or set(o.get('data', {})) == {'text/plain'}]
    return '\n'.join(''.join(text) for text in plain)


def shown_code(path):
    "The code that the page shows"
    hidden = re.compile(r'^#\|\s*(echo|include):\s*false', re.M)
    return '\n'.join(source for source in cells(path, 'code') if not hidden.search(source))


def prose(path): return '\n\n'.join(cells(path, 'markdown') + text_outputs(path, 'text/markdown'))


def documentation(path):
    "The position in the page of each cell that nbdev has added for a function, and what it shows"
    for i, cell in enumerate(json.loads(path.read_text(encoding='utf-8'))['cells']):
        if cell['cell_type'] == 'code' and 'show_doc(' in ''.join(cell['source']):
            yield i, ''.join(''.join(o['data'].get('text/markdown', '')) for o in cell['outputs'])


def headings(path):
    "The anchors of a page: its headings, and the names that show_doc documents"
    documented = re.findall(r'^### (\S+)$', '\n'.join(text_outputs(path, 'text/markdown')), re.M)
    return anchors(path) | {name.lower() for name in documented}


def page_name(path):
    "The name of the HTML file, as the front matter gives it"
    return re.search(r'^output-file: (\S+)$', cells(path, 'raw')[0], re.M)[1]


def definitions(path):
    "Names and sources of the functions and classes that a notebook exports"
    exported = [s for s in cells(path, 'code') if re.match(r'#\|\s*exports?\b', s)]
    for source in exported:
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name, ast.get_source_segment(source, node)


# ---- rules

def hidden_sources(path, page):
    "Functions that a lesson exports and its page does not show"
    code = shown_code(page)
    return [f'the source of {name} is not shown'
            for name, source in definitions(path) if source not in code]


def early_documentation(page):
    "Functions whose documentation stands between the sources of a lesson, not after all of them"
    texts = [''.join(c['source']) for c in json.loads(page.read_text(encoding='utf-8'))['cells']]
    end = texts.index('## API') if '## API' in texts else len(texts)
    return [f'the documentation of {name} stands before ## API' for i, text in documentation(page)
            if i < end for name in re.findall(r'^### (\S+)$', text, re.M)]


def poor_documentation(path, page):
    "Texts in the documentation that come from Python and say nothing, and classes that have `def`"
    classes = [name for name, source in definitions(path) if source.startswith('class ')]
    wrong = ('Call self as a function', 'NoneType', *(f'def {name}(' for name in classes))
    return [f'documentation with {words!r}' for _, text in documentation(page)
            for words in wrong if words in text]


def long_lines(page):
    "Code and printed lines that are wider than the column"
    lines = dict(code=code_lines(shown_code(page)), output=printed(page).splitlines())
    return [f'{kind} line of {len(line)} characters: {line.strip()[:60]}'
            for kind in lines for line in lines[kind] if len(line) > COLUMN]


def dead_links(page, pages):
    "Pictures, links and anchors that lead nowhere; `pages` are all pages by the name of their HTML"
    text = prose(page)
    in_html = re.findall(r'<(?:img|a)\b[^>]*\b(?:src|href)="([^"]+)"', text)
    dead = list(broken_links(page, text + ''.join(f'\n[x]({target})' for target in in_html)))
    for name, anchor in re.findall(rf'{re.escape(SITE)}([\w.]*)#?([^\s)"]*)', text):
        if name and name not in pages: dead.append(f'{name}: no such page')
        elif anchor and anchor not in headings(pages[name]):
            dead.append(f'{name}#{anchor}: no such heading')
    for name, number in re.findall(rf'{re.escape(SOURCE)}(dmns_nb/[\w/]+\.py)#L(\d+)', text):
        source = page.parent.parent/name
        if not source.is_file() or int(number) > len(source.read_text().splitlines()):
            dead.append(f'{name}: no line {number}')
    return dead


def links_in_code(page):
    "Links that nbdev put into a signature, where they are shown as they are typed"
    fenced = re.findall(r'^```.*?^```', prose(page), re.S | re.M)
    return [f'a link in code: {found}' for text in fenced for found in re.findall(
        rf'\[`[^`]+`\](?=\({re.escape(SITE)})', text)]


def linked_equations(text):
    "Numbers in brackets outside code and formulas: the site makes them links to equations"
    text = re.sub(r'^(```+).*?^\1|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$', '', text, flags=re.S | re.M)
    return re.findall(NUMBER, text)


def unknown_equations(page, known):
    "Equations that a page names and no page has"
    text = prose(page)
    named = mentions(text + shown_code(page)) + linked_equations(text)
    return [f'eq. ({tag}): no such equation' for tag in dict.fromkeys(named) if tag not in known]


def missing_files(proc):
    "Files and links of _quarto.yml that are not there"
    text = (proc/'_quarto.yml').read_text(encoding='utf-8')
    config = yaml.safe_load(text)
    html, web = config['format']['html'], config['website']
    names = html['css'], html['include-after-body'], web['favicon'], web['image']
    missing = [f'{name}: no such file' for name in names if not (proc/name).is_file()]
    return missing + list(broken_links(proc/'index.ipynb', text.replace('](/', '](')))


def problems(proc):
    "All that is wrong with processed pages; the notebooks they come from lie in `nbs` beside them"
    paths = sorted(proc.glob('*.ipynb'))
    pages = {page_name(page): page for page in paths}
    known = {tag for page in paths for tag in tags(page)}
    found = [f'_quarto.yml: {what}' for what in missing_files(proc)]
    for page in paths:
        wrong = dead_links(page, pages) + links_in_code(page) + unknown_equations(page, known)
        notebook = proc.parent/'nbs'/page.name
        wrong += long_lines(page) + poor_documentation(notebook, page)
        if page.stem[0].isdigit():
            wrong += hidden_sources(notebook, page) + early_documentation(page)
        found += [f'{page.stem}: {what}' for what in wrong]
    return found


def test_the_book_as_nbdev_hands_it_to_quarto(tmp_path):
    "Without datasets and network, in less than two minutes, and without a problem"
    book = runall.copy_book(tmp_path/'book')
    proc = preview.process(book, tmp_path/'home')
    found = problems(proc)
    assert len(list(proc.glob('*.ipynb'))) > 40 and not found, '\n'.join(['', *found])


# ---- every rule, broken once

def markdown(text): return dict(cell_type='markdown', metadata={}, source=[text])
def stream(text): return dict(output_type='stream', name='stdout', text=[text])


def result(kind, text):
    return dict(output_type='execute_result', data={kind: [text]}, metadata={}, execution_count=1)


def code(source, *outputs):
    return dict(cell_type='code', metadata={}, execution_count=1, source=[source], outputs=outputs)


def write_notebook(path, *cells):
    notebook = dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=5)
    path.write_text(json.dumps(notebook), encoding='utf-8')


FUNCTION = 'def half(x):\n    "Half of x"\n    return x/2'
CLASS = 'class Half:\n    "Half of x"'


def documented(text, name='half'):
    "A cell as nbdev adds it"
    shown = f'### {name}\n\n```python\n{text}\n```'
    return code(f'#| echo: false\nshow_doc({name})', result('text/markdown', shown))


GOOD = [markdown('## A part\n\n[there](01_one.ipynb#a-part) ![dot](images/dot.png)\n\n'
                 '<img alt="dot" src="images/dot.png"> $f(0.5)$\n\n$$x = 1 \\tag{1.1}$$\n\n'
                 f'By eq. (1.1), [`half`]({SITE}one.html#half), '
                 f'[source]({SOURCE}dmns_nb/one.py#L1)'),
        code(FUNCTION, stream('short')), code(CLASS),
        markdown('## API'), documented('def half(x)'), documented('class Half()', 'Half')]


@pytest.fixture
def small_book(tmp_path):
    "A book of one lesson that exports a function; writes its page and gives the page's problems"
    proc, nbs, module = (tmp_path/name for name in ('_proc', 'nbs', 'dmns_nb'))
    for folder in (proc/'images', nbs, module): folder.mkdir(parents=True)
    (module/'one.py').write_text(FUNCTION)
    write_notebook(nbs/'01_one.ipynb', *(code(f'#| exports\n{s}') for s in (FUNCTION, CLASS)))
    for name in ('style.css', 'after.html', 'images/dot.png'): (proc/name).touch()
    config = dict(format=dict(html={'css': 'style.css', 'include-after-body': 'after.html'}),
                  website=dict(favicon='images/dot.png', image='images/dot.png',
                               footer='[cite](/index.ipynb#licence)'))
    (proc/'_quarto.yml').write_text(yaml.safe_dump(config))
    head = dict(cell_type='raw', metadata={}, source=['---\noutput-file: one.html\n---'])
    index = dict(head, source=['---\noutput-file: index.html\n---'])
    for folder in (proc, nbs): write_notebook(folder/'index.ipynb', index, markdown('## Licence'))

    def check(*cells, without=None):
        write_notebook(proc/'01_one.ipynb', head, *cells)
        if without: (proc/without).unlink()
        return problems(proc)
    return check


def test_a_good_page_has_no_problems(small_book): assert small_book(*GOOD) == []


@pytest.mark.parametrize('cell, complaint', [
    (markdown('[a](02_two.ipynb)'), '02_two.ipynb: no such file'),
    (markdown('[a](01_one.ipynb#another-part)'), '01_one.ipynb#another-part: no such heading'),
    (markdown('![a](images/none.png)'), 'images/none.png: no such file'),
    (markdown('<img alt="a" src="images/none.png">'), 'images/none.png: no such file'),
    (markdown(f'[`f`]({SITE}two.html#f)'), 'two.html: no such page'),
    (markdown(f'[`f`]({SITE}one.html#f)'), 'one.html#f: no such heading'),
    (code('', result('text/markdown', f'[source]({SOURCE}dmns_nb/one.py#L9)')), 'no line 9'),
    (code('', result('text/markdown', f'```python\n# [`half`]({SITE}one.html#half)\n```')),
     'a link in code: [`half`]'),
    (markdown('By eq. (1.2)'), 'eq. (1.2): no such equation'),
    (markdown('a number (1.5) in brackets'), 'eq. (1.5): no such equation'),
    (code('x = 1' + ' + 1'*30), 'code line of 125 characters'),
    (code('f()', stream('-'*101)), 'output line of 101 characters'),
    (code('f()', result('text/plain', '-'*101)), 'output line of 101 characters'),
    (documented('def half(x)\n*Call self as a function.*'), "with 'Call self as a function'"),
    (documented('def half(x:NoneType=None)'), "with 'NoneType'"),
    (documented('def Half()', 'Half'), "with 'def Half('"),
], ids=['link', 'anchor', 'picture', 'picture in HTML', 'own page', 'own anchor', 'source link',
        'link in code', 'equation', 'number like an equation', 'long code', 'long print',
        'long result', 'empty sentence', 'NoneType', 'class by def'])
def test_a_fault_on_a_page_is_found(small_book, cell, complaint):
    found, = small_book(*GOOD, cell)
    assert complaint in found


@pytest.mark.parametrize('source', [
    '', f'#| echo: false\n{FUNCTION}', FUNCTION.replace('/2', '/3'),
], ids=['left out', 'hidden', 'another'])
def test_a_hidden_source_is_found(small_book, source):
    good = [cell for cell in GOOD if cell['source'] != [FUNCTION]]
    assert small_book(*good, code(source)) == ['01_one: the source of half is not shown']


@pytest.mark.parametrize('order', [(0, 1, 4, 2, 3, 5), (0, 1, 2, 4, 5)],
                         ids=['between the sources', 'without a heading'])
def test_early_documentation_is_found(small_book, order):
    found = small_book(*(GOOD[i] for i in order))
    assert '01_one: the documentation of half stands before ## API' in found


@pytest.mark.parametrize('name', ['style.css', 'after.html'])
def test_a_missing_file_of_the_site_is_found(small_book, name):
    assert small_book(*GOOD, without=name) == [f'_quarto.yml: {name}: no such file']


@pytest.mark.parametrize('source', ['import json\nx = 1', '#| export\n1/0'],
                         ids=['mixed import', 'error'])
def test_a_cell_that_fails_when_processed_is_found(tmp_path, source):
    folder = tmp_path/'book'
    (folder/'nbs').mkdir(parents=True)
    shutil.copytree(ROOT/'dmns_nb', folder/'dmns_nb', ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copy(ROOT/'settings.ini', folder)
    write_notebook(folder/'nbs'/'01_one.ipynb', markdown('# 1. One'), code('#| default_exp one'),
                   code('#| export\nfrom os import path'), code(source))
    with pytest.raises(RuntimeError, match='nbdev_proc_nbs failed'):
        preview.process(folder, tmp_path/'home')
