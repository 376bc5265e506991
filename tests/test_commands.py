"The commands as a user types them."
import subprocess
import sys


def test_import_is_enough_to_load_and_split():
    code = "from dmns_nb.graphs import load_graph, split_links; s=split_links(load_graph('debian')); s.check(); print(s)"
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith('debian split (seed 0): 10,476 links') and done.stderr == ''


def test_demo(tmp_path):
    done = subprocess.run(['dmns_demo', '--epochs', '3', '--out', str(tmp_path/'d.png')], capture_output=True, text=True, check=True)
    assert 'uniform candidates' in done.stdout and 'MAP' in done.stdout
    assert (tmp_path/'d.png').read_bytes().startswith(b'\x89PNG')


def test_demo_help():
    done = subprocess.run(['dmns_demo', '--help'], capture_output=True, text=True, check=True)
    assert '--epochs' in done.stdout and 'rounds of training' in done.stdout
