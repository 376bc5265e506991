"Run notebooks, make README.md, and check that nothing made from a notebook is stale."
import argparse
import filecmp
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
WIDGET = 'application/vnd.jupyter.widget-view+json'


def is_slow(cell): return re.search(r'^#\|\s*(slow|eval:\s*false)\b', cell.source, re.M) is not None


def run(names, slow=False):
    "Run notebooks from the top and save their outputs; a cell that is not run keeps its output."
    from nbclient import NotebookClient
    for name in names or [p.stem for p in chapters()]:
        path = ROOT/'nbs'/f'{Path(name).stem}.ipynb'
        nb = nbformat.read(path, as_version=4)
        client = NotebookClient(nb, timeout=None, kernel_name='python3',
                                resources={'metadata': {'path': str(path.parent)}})
        with client.setup_kernel():
            for i, cell in enumerate(nb.cells):
                if cell.cell_type != 'code' or (is_slow(cell) and not slow): continue
                client.execute_cell(cell, i)
        nb.metadata.pop('widgets', None)
        for cell in nb.cells:  # a widget without its kernel shows nothing
            if cell.cell_type != 'code': continue
            cell.outputs = [o for o in cell.outputs if WIDGET not in o.get('data', {})]
        nbformat.write(nb, path)
        subprocess.run(['nbdev_clean', '--fname', str(path)], check=True, cwd=ROOT)
        print(f'{path.name}: {path.stat().st_size/1024:.0f} KB')


def chapters():
    "Notebooks that can be run"
    texts = {p: p.read_text(encoding='utf-8') for p in sorted((ROOT/'nbs').glob('*.ipynb'))}
    return [p for p, text in texts.items() if 'skip_exec: true' not in text]


def readme_text(index):
    "README.md from index.ipynb, without directives, hidden cells and site-only links."
    from nbconvert import MarkdownExporter
    nb = nbformat.read(index, as_version=4)
    nb.metadata['language_info'] = {'name': 'python'}
    hidden = re.compile(r'\s*#\|\s*hide\s*$', re.M)
    nb.cells = [c for c in nb.cells if c.source.strip() and not hidden.match(c.source)]
    for i, c in enumerate(nb.cells):
        if c.cell_type != 'code': continue
        if '#| echo: false' in c.source:  # only what it prints
            plain = [o.get('data', {}).get('text/plain', o.get('text', '')) for o in c.outputs]
            text = '\n'.join(''.join(part) for part in plain)
            nb.cells[i] = nbformat.v4.new_markdown_cell(f'```text\n{text.rstrip()}\n```')
            continue
        lines = [line for line in c.source.splitlines() if not line.startswith('#|')]
        c.source = '\n'.join(lines).strip()
        c.outputs = [o for o in c.outputs if 'image/png' not in o.get('data', {})]
        for o in c.outputs: o.get('data', {}).pop('text/html', None)  # plain reads better here
    text, _ = MarkdownExporter().from_notebook_node(nb)
    text = re.sub(r'\]\(([\w-]+\.ipynb)', r'](nbs/\1', text)
    text = re.sub(r'\]\(images/', '](nbs/images/', text)
    return re.sub(r'\n{3,}', '\n\n', text).strip() + '\n'


def readme(): (ROOT/'README.md').write_text(readme_text(ROOT/'nbs'/'index.ipynb'), encoding='utf-8')


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
        found = list(stale(root, made))
    if found: sys.exit('Stale files (run `make prepare`):\n  ' + '\n  '.join(found))
    print('Modules, notebooks and README.md are what the notebooks give.')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest='command', required=True)
    commands.add_parser('check', help=check.__doc__)
    commands.add_parser('readme', help='Make README.md from nbs/index.ipynb.')
    runner = commands.add_parser('run', help=run.__doc__)
    runner.add_argument('names', nargs='*', help='notebooks, such as 01_graphs; default: all')
    runner.add_argument('--slow', action='store_true', help='run the cells marked slow too')
    args = parser.parse_args()
    if args.command == 'run': run(args.names, args.slow)
    else: dict(check=check, readme=readme)[args.command]()
