"Run notebooks, give them their common parts, make README.md, and find what is stale."
import argparse
import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
WIDGET = 'application/vnd.jupyter.widget-view+json'


@cache
def settings():
    parser = ConfigParser(delimiters=['='])
    parser.read(ROOT/'settings.ini', encoding='utf-8')
    return parser['DEFAULT']


def reading_order(path):
    "Sort the front page first, then numbers, then letters: A to Z, AA, AB."
    number = path.stem.split('_')[0]
    return number != 'index', not number.isdigit(), len(number), number


def notebooks(root=ROOT):
    "All notebooks in the order of the book: index, chapters, appendices."
    return sorted((root/'nbs').glob('*.ipynb'), key=reading_order)


def is_runnable(nb): return not any('skip_exec: true' in c.source for c in nb.cells)


# ---- parts that all notebooks share

def badges(name, nb):
    "Links that open the notebook elsewhere, and how long it takes."
    s, path = settings(), f'nbs/{name}.ipynb'
    repository = f"{s['user']}/{s['repo']}"
    colab = f"https://colab.research.google.com/github/{repository}/blob/{s['branch']}/{path}"
    binder = f"https://mybinder.org/v2/gh/{repository}/{s['branch']}?urlpath=lab/tree/{path}"
    badge = 'https://colab.research.google.com/assets/colab-badge.svg'
    text = (f'[![Open in Colab]({badge})]({colab}) '
            f'[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})')
    seconds = nb.metadata.get('book', {}).get('seconds')
    if seconds: text += f'\n\n{reading_time(nb)} min to read, about {seconds} s to run'
    return nbformat.v4.new_markdown_cell(text, id='badges')


def reading_time(nb):
    "Minutes for the text at 200 words a minute and for the visible code at 15 lines a minute."
    words = sum(len(c.source.split()) for c in nb.cells if c.cell_type == 'markdown')
    shown = [c.source for c in nb.cells if c.cell_type == 'code' and not is_folded(c)]
    lines = sum(len(source.splitlines()) for source in shown)
    return max(1, round(words/200 + lines/15))


def install():
    "A cell that installs the package where it is missing, such as in Colab."
    s = settings()
    return nbformat.v4.new_code_cell(f'''#| hide
#| eval: false
try: import {s['lib_name']}
except ModuleNotFoundError:
    print('Installing {s['lib_name']} {s['version']} ...')
    %pip install --quiet '{s['lib_name']}[book]=={s['version']}\'''', id='install')


def links(path):
    "Links to the chapters before and after; the site has its own."
    order = notebooks(path.parent.parent)
    place = order.index(path)
    title = lambda p: nbformat.read(p, as_version=4).cells[0].source.splitlines()[0].lstrip('# ')
    link = lambda p: f'[{title(p)}]({p.name})'
    parts = [f'← {link(p)}' for p in order[:place][-1:]]
    parts += [f'{link(p)} →' for p in order[place + 1:][:1]]
    text = '<div class="notebook-only">\n\n' + ' &nbsp;·&nbsp; '.join(parts) + '\n\n</div>'
    return nbformat.v4.new_markdown_cell(text, id='links')


def is_folded(cell):
    "Whether the source of a cell is folded on the site or not shown there"
    return bool(re.search(r'^#\|\s*(code-fold:\s*true|hide$|echo:\s*false)', cell.source, re.M))


def dress(path):
    "Give a notebook the parts that all share, and collapse in JupyterLab what the site folds."
    nb = nbformat.read(path, as_version=4)
    before = nbformat.writes(nb)
    cells = [c for c in nb.cells if c.id not in ('badges', 'install', 'links')]
    if is_runnable(nb):
        nb.cells = cells
        cells = [cells[0], badges(path.stem, nb), install(), *cells[1:]]
        if path.stem != 'index': cells.append(links(path))
    for c in cells:
        if c.cell_type != 'code': continue
        c.metadata.pop('jupyter', None)
        if is_folded(c): c.metadata.jupyter = {'source_hidden': True}
    nb.cells = cells
    if nbformat.writes(nb) != before: nbformat.write(nb, path)


# ---- outputs

def stamp(nb):
    "A checksum of the code and its outputs, without the cell that all notebooks share"
    own = (c for c in nb.cells if c.cell_type == 'code' and c.id != 'install')
    made = [(c.source, c.outputs) for c in own]
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]


def is_stamped(nb): return nb.metadata.get('book', {}).get('stamp') == stamp(nb)


def strip_widgets(nb):
    "Remove the views of widgets, which show nothing without their kernel, and empty outputs."
    nb['metadata'].pop('widgets', None)
    for cell in nb['cells']:
        if cell['cell_type'] == 'code':
            cell['outputs'] = [o for o in cell['outputs'] if WIDGET not in o.get('data', {})
                               and ''.join(o.get('data', {}).get('text/html', ['-']))]


def run_cells(nb, folder, env=os.environ, timeout=None):
    "Run the cells of a notebook in a new kernel that works in this folder, up to the first error."
    from nbclient import NotebookClient
    NotebookClient(nb, timeout=timeout, kernel_name='python3', coalesce_streams=True,
                   extra_arguments=['--log-level=40'],   # errors only
                   resources={'metadata': {'path': str(folder)}}).execute(env=env)


def children_seconds():
    "Processor time of finished child processes, which does not depend on what else is running."
    times = os.times()
    return times.children_user + times.children_system


def execute(path, environment):
    "Run a notebook from the top and save its outputs; the seconds it took."
    nb = nbformat.read(path, as_version=4)
    start = children_seconds()
    run_cells(nb, path.parent, {**os.environ, **environment})
    seconds = children_seconds() - start
    strip_widgets(nb)
    nbformat.write(nb, path)
    subprocess.run(['nbdev_clean', '--fname', str(path)], check=True, cwd=ROOT)
    return seconds


def run(names, slow=False):
    "Run notebooks as a reader without datasets does; with `slow`, first compute what is saved."
    for name in names or [p.stem for p in notebooks()]:
        path = ROOT/'nbs'/f'{Path(name).stem}.ipynb'
        if not is_runnable(nbformat.read(path, as_version=4)): continue
        if slow: execute(path, dict(DMNS_RESULTS='new'))
        with tempfile.TemporaryDirectory() as empty:
            seconds = execute(path, dict(DMNS_RESULTS='', DMNS_DATA=empty))
        nb = nbformat.read(path, as_version=4)
        steps = (5, 10, 20, 30, 45, 60, 90, 120, 300, 9999)
        nb.metadata['book'] = dict(seconds=next(s for s in steps if seconds <= s))
        nbformat.write(nb, path)
        dress(path)
        nb = nbformat.read(path, as_version=4)
        nb.metadata['book']['stamp'] = stamp(nb)
        nbformat.write(nb, path)
        print(f'{path.name}: {seconds:.0f} s, {path.stat().st_size/1024:.0f} KB')


def committed(path):
    "The notebook of the last commit; None if there is none."
    done = subprocess.run(['git', 'show', f'HEAD:./{path.name}'], cwd=path.parent,
                          capture_output=True, text=True)
    return nbformat.reads(done.stdout, as_version=4) if done.returncode == 0 else None


def sources(nb): return [(c.cell_type, c.source) for c in nb.cells]


def failed_cell(nb):
    "The first cell that ended in an error, in words; None if there is none."
    for i, c in enumerate(nb.cells):
        for o in c.get('outputs', []):
            if o.output_type == 'error': return f'cell {i} ended in {o.ename}: {o.evalue}'


def settle(path):
    "Undo what running a notebook by hand has changed; what has to be done, if that is not all."
    nb = nbformat.read(path, as_version=4)
    if not is_runnable(nb) or is_stamped(nb): return None
    old = committed(path)
    if old and sources(old) == sources(nb) and is_stamped(old):
        nbformat.write(old, path)
        return None
    failed = failed_cell(nb)
    return f'{path.name}: ' + (failed or f'outputs are old; run `make run NB={path.stem}`')


def prepare():
    "Export the modules, clean the notebooks and give them their common parts, make README.md."
    for command in ('nbdev_export', 'nbdev_clean'): subprocess.run([command], check=True, cwd=ROOT)
    for path in notebooks(): dress(path)
    left = [problem for problem in map(settle, notebooks()) if problem]
    readme()
    if left: sys.exit('\n'.join(left))


# ---- README.md

def markdown_table(html):
    "A table of a notebook as Markdown: names on the left, values on the right."
    from bs4 import BeautifulSoup   # a requirement of nbconvert
    rows = [[cell.get_text(strip=True) for cell in row(['th', 'td'])]
            for row in BeautifulSoup(html, 'html.parser')('tr')]
    rows.insert(1, [':--', *['--:']*(len(rows[0]) - 1)])
    return '\n'.join(f"| {' | '.join(row)} |" for row in rows)


def readme_text(index):
    "README.md from index.ipynb, without directives, hidden cells and site-only links."
    from nbconvert import MarkdownExporter
    nb = nbformat.read(index, as_version=4)
    nb.metadata['language_info'] = {'name': 'python'}
    hidden = re.compile(r'\s*#\|\s*hide\s*$', re.M)
    nb.cells = [c for c in nb.cells if c.source.strip() and not hidden.match(c.source)]
    for i, c in enumerate(nb.cells):
        if c.id == 'badges': c.source = c.source.splitlines()[0]   # not how long it takes to read
        if c.cell_type != 'code': continue
        if '#| echo: false' in c.source:  # only its table
            tables = [markdown_table(o.data['text/html']) for o in c.outputs]
            nb.cells[i] = nbformat.v4.new_markdown_cell('\n\n'.join(tables))
            continue
        lines = [line for line in c.source.splitlines() if not line.startswith('#|')]
        c.source = '\n'.join(lines).strip()
        c.outputs = [o for o in c.outputs if 'image/png' not in o.get('data', {})]
        for o in c.outputs: o.get('data', {}).pop('text/html', None)  # plain reads better here
    text, _ = MarkdownExporter().from_notebook_node(nb)
    text = re.sub(r'\]\(([\w-]+\.ipynb)', r'](nbs/\1', text)
    text = re.sub(r'\]\(images/', '](nbs/images/', text)
    return re.sub(r'\n{3,}', '\n\n', text).strip() + '\n'


def readme():
    "Make README.md from nbs/index.ipynb."
    (ROOT/'README.md').write_text(readme_text(ROOT/'nbs'/'index.ipynb'), encoding='utf-8')


# ---- checks

def stale(root, made):
    "What differs between the committed files and those made anew in `made`."
    for kind, pattern in (('module', 'dmns_nb/*.py'), ('notebook', 'nbs/*.ipynb')):
        there, anew = ({p.relative_to(base) for p in base.glob(pattern)} for base in (root, made))
        for p in sorted(there | anew):
            if p not in there: yield f'{p}: not exported'
            elif p not in anew: yield f'{p}: no notebook exports it'
            elif not filecmp.cmp(root/p, made/p, shallow=False):
                problem = 'not what its notebook exports' if kind == 'module' else 'not clean'
                yield f'{p}: {problem}'
    for path in notebooks(root):
        nb = nbformat.read(path, as_version=4)
        if is_runnable(nb) and not is_stamped(nb):
            yield f'nbs/{path.name}: not the outputs of its code (run `make run NB={path.stem}`)'
    if readme_text(made/'nbs'/'index.ipynb') != (root/'README.md').read_text(encoding='utf-8'):
        yield 'README.md: not what nbs/index.ipynb gives'


def check(root=ROOT):
    "Fail when modules, notebooks or README.md are not what the notebooks give."
    with tempfile.TemporaryDirectory() as tmp:
        made = Path(tmp)/'dmns_nb'
        (made/'dmns_nb').mkdir(parents=True)
        for f in ('settings.ini', '_quarto.yml'): shutil.copy(root/f, made/f)
        shutil.copytree(root/'nbs', made/'nbs', symlinks=True, ignore=shutil.ignore_patterns('.*'))
        for command in ('nbdev_export', 'nbdev_clean'):
            done = subprocess.run([command], cwd=made, capture_output=True, text=True)
            if done.returncode: sys.exit(f'{command} failed:\n{done.stdout}{done.stderr}')
        for path in notebooks(made): dress(path)
        found = list(stale(root, made))
    if found: sys.exit('Stale files (run `make prepare`):\n  ' + '\n  '.join(found))
    print('Modules, notebooks and README.md are what the notebooks give.')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest='command', required=True)
    for function in (check, prepare, readme):
        commands.add_parser(function.__name__, help=function.__doc__)
    runner = commands.add_parser('run', help=run.__doc__)
    runner.add_argument('names', nargs='*', help='notebooks, such as 01_graphs; default: all')
    runner.add_argument('--slow', action='store_true', help='compute the saved results anew')
    args = parser.parse_args()
    if args.command == 'run': run(args.names, args.slow)
    else: dict(check=check, prepare=prepare, readme=readme)[args.command]()
