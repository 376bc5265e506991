"Packaging: every fact is read from settings.ini."
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf-8')
cfg = parser['DEFAULT']

statuses = {'1': 'Planning', '2': 'Pre-Alpha', '3': 'Alpha', '4': 'Beta', '5': 'Production/Stable'}
first = int(cfg['min_python'].split('.')[1])
classifiers = [
    f"Development Status :: {cfg['status']} - {statuses[cfg['status']]}",
    'Intended Audience :: Developers', 'Intended Audience :: Education',
    'Intended Audience :: Science/Research', f"Natural Language :: {cfg['language']}",
    'Operating System :: POSIX', 'Framework :: Jupyter', 'Programming Language :: Python :: 3',
    'Programming Language :: Python :: 3 :: Only',
    *(f'Programming Language :: Python :: 3.{minor}' for minor in range(first, 13)),
    'Topic :: Scientific/Engineering :: Artificial Intelligence']
site, source = cfg['doc_host'] + cfg['doc_baseurl'], cfg['git_url']
files = f"{source}/blob/{cfg['branch']}"
readme = (here/'README.md').read_text(encoding='utf-8').replace('](nbs/', f']({files}/nbs/')

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'],
    keywords=cfg['keywords'].split(), author=cfg['author'], author_email=cfg['author_email'],
    license_expression='Apache-2.0', license_files=['LICENSE'], url=site,
    project_urls={'Documentation': site, 'Source': source, 'Issues': f'{source}/issues',
                  'Changelog': f'{files}/CHANGELOG.md'},
    classifiers=classifiers, packages=[cfg['lib_path'], cfg['lib_path'] + '.results'],
    package_dir={cfg['lib_path'] + '.results': 'results'},   # the book's tables come with it
    package_data={cfg['lib_path']: ['data/*'], cfg['lib_path'] + '.results': ['*.json*']},
    include_package_data=False, zip_safe=False,
    python_requires='>=' + cfg['min_python'], install_requires=cfg['requirements'].split(),
    extras_require={'book': cfg['book_requirements'].split(),
                    'dev': f"{cfg['book_requirements']} {cfg['dev_requirements']}".split()},
    entry_points={'console_scripts': cfg['console_scripts'].split(),
                  'nbdev': ['dmns_nb=dmns_nb._modidx:d']},
    long_description=readme, long_description_content_type='text/markdown',
)
