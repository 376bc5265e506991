"The wheel: what it holds, what it says of itself, and that it runs alone."
import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email.parser import Parser
from pathlib import Path

import book
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent

TOOLS = ('nbdev', 'execnb', 'ghapi', 'nbconvert', 'pytest', 'hypothesis', 'mypy')
BOOK = ('matplotlib', 'ipywidgets')
PIP = [sys.executable, '-m', 'pip', '--quiet', '--disable-pip-version-check']


def facts():
    parser = ConfigParser(delimiters=['='])
    parser.read(ROOT/'settings.ini', encoding='utf-8')
    return parser['DEFAULT']


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    "Built from a copy, so that nothing is left behind in the project"
    copy = tmp_path_factory.mktemp('source')
    for name in ('settings.ini', 'setup.py', 'MANIFEST.in', 'README.md', 'LICENSE', 'CHANGELOG.md'):
        shutil.copy(ROOT/name, copy/name)
    for name in ('dmns_nb', 'nbs', 'results', 'tests', 'tools'):
        shutil.copytree(ROOT/name, copy/name, ignore=shutil.ignore_patterns('__pycache__'))
    subprocess.run([*PIP, 'wheel', '.', '--no-deps', '--no-build-isolation',
                    '--wheel-dir', str(copy/'out')], cwd=copy, check=True, capture_output=True)
    return next((copy/'out').glob('*.whl'))


@pytest.fixture(scope='module')
def installed(wheel, tmp_path_factory):
    "How to run something with the wheel installed, and neither the source nor our tools in reach"
    place, block = tmp_path_factory.mktemp('site'), tmp_path_factory.mktemp('block')
    subprocess.run([*PIP, 'install', '--no-deps', '--target', str(place), str(wheel)],
                   check=True, capture_output=True)
    for tool in TOOLS:
        (block/f'{tool}.py').write_text(f'raise ImportError("{tool} is not there")\n')
    env = {**os.environ, 'PYTHONPATH': f'{block}{os.pathsep}{place}',
           'PATH': f'{place/"bin"}{os.pathsep}{os.environ["PATH"]}'}
    def run(*command, folder):
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True,
                              check=True)
    run.place, run.env = place, env
    return run


def test_the_wheel_holds_the_package_its_data_and_results_and_nothing_else(wheel):
    names = {n for n in zipfile.ZipFile(wheel).namelist() if '.dist-info/' not in n}
    there = {str(p.relative_to(ROOT)) for p in (ROOT/'dmns_nb').rglob('*')
             if p.is_file() and '__pycache__' not in p.parts}
    there |= {f'dmns_nb/results/{p.name}' for p in (ROOT/'results').glob('*.json*')}
    assert names == there and 'dmns_nb/data/debian.npz' in names
    assert 'dmns_nb/results/runs.jsonl' in names and wheel.stat().st_size < 5_000_000


def test_what_the_wheel_says_of_itself(wheel):
    cfg = facts()
    with zipfile.ZipFile(wheel) as z:
        text = z.read(next(n for n in z.namelist() if n.endswith('/METADATA'))).decode()
    meta = Parser().parsestr(text)
    assert meta['Name'] == 'dmns_nb' and meta['Version'] == cfg['version']
    assert meta['Requires-Python'] == '>=3.11'
    assert meta['License-Expression'] == 'Apache-2.0' and meta['Summary'] == cfg['description']
    urls = dict(u.split(', ') for u in meta.get_all('Project-URL'))
    assert {'Documentation', 'Source', 'Issues', 'Changelog'} <= set(urls)
    assert all(u.startswith('https://') for u in urls.values())
    classifiers = meta.get_all('Classifier')
    assert 'Programming Language :: Python :: 3.11' in classifiers
    assert 'Development Status :: 3 - Alpha' in classifiers
    assert not any(c.startswith('License ::') for c in classifiers)   # the expression says it
    assert meta.get_all('Provides-Extra') == ['book', 'dev']
    plain = [r for r in meta.get_all('Requires-Dist') if 'extra ==' not in r]
    assert any(r.startswith('torch') for r in plain)
    assert not any(re.match(tool, r) for r in plain for tool in (*TOOLS, *BOOK))
    extra = [r for r in meta.get_all('Requires-Dist') if r.endswith('extra == "book"')]
    assert {re.match(r'\w+', r).group() for r in extra} == {*BOOK, 'jupyterlab'}
    assert '](nbs/' not in meta.get_payload()   # links that PyPI could not follow


def test_the_version_is_in_one_place(wheel):
    import dmns_nb
    version = facts()['version']
    assert dmns_nb.__version__ == version and wheel.name.startswith(f'dmns_nb-{version}-')
    for name in ('setup.py', '_quarto.yml', 'README.md'):
        assert version not in (ROOT/name).read_text(encoding='utf-8'), name


def test_it_trains_in_an_empty_folder(installed, tmp_path):
    code = 'import dmns_nb; print(dmns_nb.__file__)'
    where = installed(sys.executable, '-c', code, folder=tmp_path).stdout
    assert where.startswith(str(installed.place))
    done = installed('dmns_train', '--dataset', 'debian', '--epochs', '2', '--quiet',
                     folder=tmp_path)
    assert done.stdout.startswith('debian: 3,515 nodes') and 'MAP' in done.stdout
    assert done.stderr == ''
    assert not list(tmp_path.iterdir())


def test_training_needs_nothing_of_the_book(installed, tmp_path):
    links = [f'{v},{v + step}' for v in range(60) for step in (1, 2, 7)]
    (tmp_path/'links.csv').write_text('\n'.join(links) + '\n')
    code = ('import sys\n'
            f'for name in {BOOK}: sys.modules[name] = None    # as if it were not installed\n'
            'from dmns_nb.commands import dmns_demo, dmns_train\n'
            "dmns_train('links.csv', epochs=1, predict=1, quiet=True)\n"
            'try: dmns_demo(epochs=1)\n'
            'except SystemExit as e: print(e.code)\n')
    done = installed(sys.executable, '-c', code, folder=tmp_path)
    assert 'predicted links are in' in done.stdout and done.stdout.endswith('\n2\n')
    message = "matplotlib is not installed: run pip install 'dmns_nb[book]'"
    assert done.stderr == f'dmns_demo: {message}\n'


def test_a_tag_is_built_and_published_without_a_stored_token():
    import yaml
    flow = yaml.safe_load((ROOT/'.github'/'workflows'/'publish.yml').read_text())
    build, publish = flow['jobs']['build'], flow['jobs']['publish']
    assert flow[True] == {'push': {'tags': ['v*']}}      # YAML reads on as True
    assert publish['permissions'] == {'id-token': 'write'} and publish['needs'] == 'build'
    assert publish['steps'][-1]['uses'].startswith('pypa/gh-action-pypi-publish@')
    [check] = [step['run'] for step in build['steps'] if 'settings.ini' in step.get('run', '')]
    for tag, code in ((f"v{facts()['version']}", 0), ('v9.9.9', 1)):
        env = {**os.environ, 'GITHUB_REF_NAME': tag}
        assert subprocess.run(['bash', '-e', '-c', check], cwd=ROOT, env=env).returncode == code


def test_python_m_lists_the_commands(installed, tmp_path, capsys, monkeypatch):
    listed = installed(sys.executable, '-m', 'dmns_nb', folder=tmp_path).stdout
    for command in facts()['console_scripts'].split(): assert command.split('=')[0] in listed
    from dmns_nb.commands import dmns_train, find_command
    monkeypatch.setattr(sys, 'argv', [])
    assert find_command(['train', '--help']) is dmns_train
    assert sys.argv == ['dmns_train', '--help']
    with pytest.raises(SystemExit, match='2'): find_command(['trian'])
    assert capsys.readouterr().err == "\nThere is no command 'trian'.\n"


def test_names_at_the_top_are_those_of_the_modules(installed, tmp_path):
    code = ('import dmns_nb\n'
            'for name in dmns_nb.__all__: getattr(dmns_nb, name)\n'
            'from dmns_nb.methods import fit\n'
            'assert dmns_nb.fit is fit and set(dmns_nb.__all__) <= set(dir(dmns_nb))\n'
            'try: dmns_nb.nothing\n'
            'except AttributeError as e: print(e)\n')
    done = installed(sys.executable, '-c', code, folder=tmp_path)
    assert done.stdout == "module 'dmns_nb' has no attribute 'nothing'\n"


def test_importing_takes_no_time(installed, tmp_path):
    modules = {'dmns_nb': .3, 'dmns_nb.commands': .3, 'dmns_nb.methods': 2}   # most seconds
    code = ('import time, torch, pandas, scipy.sparse\n'
            'from importlib import import_module\n'
            f'for module in {list(modules)}:\n'
            '    start = time.process_time()\n'
            '    import_module(module)\n'
            '    print(time.process_time() - start)\n')
    spent = installed(sys.executable, '-c', code, folder=tmp_path).stdout.split()
    for (module, most), seconds in zip(modules.items(), spent, strict=True):
        assert float(seconds) < most, module


@pytest.mark.parametrize('name', ['05_predictor', 'I_tables'])
def test_a_chapter_runs_alone_with_the_wheel_installed(installed, name, tmp_path):
    nb = nbformat.read(ROOT/'nbs'/f'{name}.ipynb', as_version=4)
    assert nb.cells[2].id == 'install' and '%pip install' in nb.cells[2].source
    nb.cells.append(nbformat.v4.new_code_cell('print(dmns_nb.__file__)'))
    env = {**installed.env, 'DMNS_DATA': str(tmp_path/'none'), 'DMNS_RESULTS': ''}
    book.run_cells(nb, tmp_path, env, timeout=300)
    assert nb.cells[-1].outputs[0].text.startswith(str(installed.place))
    assert not [o for c in nb.cells for o in c.get('outputs', []) if o.get('name') == 'stderr']
    assert not list(tmp_path.iterdir())
