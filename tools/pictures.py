"Draw the pictures of the site anew: run the notebooks that define them, and save what they drew."
import argparse
from pathlib import Path

import nbformat

from book import run_cells

NBS = Path(__file__).resolve().parent.parent/'nbs'
SAVE = {'D_drawing': 'save_site_pictures({folder!r})',
        '18_methods': "front_page.savefig({folder!r} + '/glance.png', dpi=150)"}


def draw(name, code):
    "Run a notebook from the top, and some code after it; the notebook's file stays as it is."
    nb = nbformat.read(NBS/f'{name}.ipynb', as_version=4)
    nb.cells.append(nbformat.v4.new_code_cell(code))
    run_cells(nb, NBS)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', nargs='?', default=str(NBS/'images'), help='default: nbs/images')
    folder = str(Path(parser.parse_args().folder).resolve())
    for name, code in SAVE.items(): draw(name, code.format(folder=folder))
