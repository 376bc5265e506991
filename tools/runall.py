"""Run notebooks as a reader would who has neither the datasets nor a network, and print a table.

The book is copied to a temporary folder, so that nothing here is changed. Fails if a notebook
has an error or a warning, takes over two minutes, or changes a file.
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from book import run_cells

ROOT = Path(__file__).resolve().parent.parent
SLOWEST = 120   # seconds for one notebook
NOWHERE = 'http://127.0.0.1:9'


def copy_book(folder):
    "What a reader has after cloning: notebooks, package, results and tools"
    unwanted = shutil.ignore_patterns('.*', '__pycache__', 'unfinished')
    for part in ('nbs', 'dmns_nb', 'results', 'tools'):
        shutil.copytree(ROOT/part, folder/part, symlinks=True, ignore=unwanted)
    for part in ('settings.ini', '_quarto.yml', 'README.md'): shutil.copy(ROOT/part, folder/part)
    return folder


def reader_env(book, home):
    "The environment of a reader who has just installed the package, without datasets and network"
    env = {k: v for k, v in os.environ.items()
           if k != 'MPLBACKEND' and not k.startswith(('DMNS_', 'JUPYTER', 'XDG_', 'IPYTHON'))}
    (home/'data').mkdir(parents=True, exist_ok=True)
    env |= dict(HOME=str(home), DMNS_DATA=str(home/'data'), PYTHONPATH=str(book),
                PYTHONDONTWRITEBYTECODE='1', OMP_NUM_THREADS=env.get('OMP_NUM_THREADS', '1'))
    for name in ('http_proxy', 'https_proxy'): env |= {name: NOWHERE, name.upper(): NOWHERE}
    env |= dict.fromkeys(('no_proxy', 'NO_PROXY'), 'localhost,127.0.0.1')
    # matplotlib lists the fonts of a new machine once, and says so on stderr if it takes long
    subprocess.run([sys.executable, '-c', 'import matplotlib.pyplot'], env=env, check=True,
                   capture_output=True)
    return env


def checksums(folder):
    "The checksum of every file"
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob('*')) if p.is_file()}


def problems(nb):
    "How many code cells were run, the first line of each warning, and each error"
    cells = [c for c in nb['cells'] if c['cell_type'] == 'code']
    outputs = [o for c in cells for o in c['outputs']]
    text = lambda o: ''.join(o['text']).strip().split('\n')[0]
    warnings = [text(o) for o in outputs if o.get('name') == 'stderr']
    errors = [f"{o['ename']}: {o['evalue']}" for o in outputs if o['output_type'] == 'error']
    missed = sum(c['execution_count'] is None for c in cells if ''.join(c['source']).strip())
    if missed and not errors: errors = [f'{missed} cells were not run']
    return sum(c['execution_count'] is not None for c in cells), warnings, errors


def run(path, env):
    "Run every cell of a notebook from the top, until the first error"
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == 'code': cell.outputs, cell.execution_count = [], None
    start, stopped = time.perf_counter(), []
    try: run_cells(nb, path.parent, env, timeout=5*SLOWEST)
    except CellExecutionError: pass   # it is among the outputs
    except (CellTimeoutError, DeadKernelError) as e: stopped = [type(e).__name__]
    seconds = time.perf_counter() - start
    count, warnings, errors = problems(nb)
    return seconds, count, warnings, stopped + errors


def line(name, seconds, count, errors, warnings):
    "One line of the table"
    if not isinstance(seconds, str): seconds = f'{seconds:.0f}'
    return f'{name:20}{seconds:>8}{count:>12}{errors:>8}{warnings:>10}'


HEADER = line('notebook', 'seconds', 'cells run', 'errors', 'warnings')


def main(names):
    "Run these notebooks, or all; the number of bad ones"
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        book, home = copy_book(Path(tmp)/'book'), Path(tmp)/'home'
        env, before = reader_env(book, home), checksums(book)
        paths = [book/'nbs'/f'{Path(name).stem}.ipynb' for name in names]
        print(HEADER)
        for path in paths or sorted((book/'nbs').glob('*.ipynb')):
            if 'skip_exec: true' in path.read_text(encoding='utf-8'):
                print(f'{path.stem:20}     not run: it says skip_exec')
                continue
            seconds, count, warnings, errors = run(path, env)
            after = checksums(book)
            changed = sorted({name for name, _ in before.items() ^ after.items()})
            before = after
            found = [f'error: {e}' for e in errors] + [f'warning: {w}' for w in warnings]
            found += [f'changed: {name}' for name in changed]
            if seconds > SLOWEST: found.append(f'takes over {SLOWEST} s')
            print(line(path.stem, seconds, count, len(errors), len(warnings)), flush=True)
            for what in found: print(f'    {what[:160]}', flush=True)
            bad += bool(found)
    return bad


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', help='notebooks, such as 01_graphs; default: all')
    bad = main(parser.parse_args().names)
    if bad: sys.exit(f'{bad} of the notebooks have problems.')
