"Packaging: every fact is read from settings.ini."
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf-8')
cfg = parser['DEFAULT']

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'], keywords=cfg['keywords'],
    author=cfg['author'], author_email=cfg['author_email'], license='Apache-2.0',
    url=cfg['git_url'],
    project_urls={'Documentation': cfg['doc_host'] + cfg['doc_baseurl'], 'Source': cfg['git_url'],
                  'Changelog': f"{cfg['git_url']}/blob/{cfg['branch']}/CHANGELOG.md"},
    classifiers=['Development Status :: 3 - Alpha', 'Intended Audience :: Developers', 'Intended Audience :: Education',
                 'Intended Audience :: Science/Research', 'License :: OSI Approved :: Apache Software License',
                 'Natural Language :: English', 'Programming Language :: Python :: 3',
                 'Topic :: Scientific/Engineering :: Artificial Intelligence'],
    packages=find_packages(include=[cfg['lib_path'], cfg['lib_path'] + '.*']),
    package_data={cfg['lib_path']: ['data/*.npz']}, zip_safe=False,
    python_requires='>=' + cfg['min_python'],
    install_requires=cfg['requirements'].split(), extras_require={'dev': cfg['dev_requirements'].split()},
    entry_points={'console_scripts': cfg['console_scripts'].split()},
    long_description=(here/'README.md').read_text(encoding='utf-8') if (here/'README.md').exists() else '',
    long_description_content_type='text/markdown',
)
