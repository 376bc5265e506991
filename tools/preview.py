"""Look at the site without Quarto: nbdev processes the notebooks, pandoc makes plain pages of them.

The pages have Quarto's structure and class names and the book's own CSS and script, but neither
its theme nor MathJax. With `--screenshots`, Chromium opens every page at two widths, light and
dark, and the pages that scroll sideways on a phone are counted.
"""
import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import yaml

from browser import chromium
from runall import SLOWEST, copy_book, reader_env

WIDTHS, SCHEMES = (1400, 420), ('light', 'dark')
PAGE = '''<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{theme}</style><link rel="stylesheet" href="styles.css"></head>
<body class="quarto-light"><script>
if (matchMedia('(prefers-color-scheme: dark)').matches) document.body.className = 'quarto-dark';
</script><nav id="quarto-header">dmns_nb</nav><aside id="quarto-sidebar">{sidebar}</aside>
<main class="content"><h1 class="title">{title}</h1><p class="lead">{description}</p>
{body}</main>{after}</body></html>'''
THEME = '''
body { margin: 0; font: 17px/1.5 "Source Sans Pro", "DejaVu Sans", sans-serif; color: #373a3c }
body.quarto-dark { background: #222; color: #fff }
#quarto-header { position: fixed; top: 0; left: 0; right: 0; z-index: 9; padding: .9rem;
  background: #2780e3; color: #fff }
#quarto-sidebar { position: absolute; top: 4.5rem; left: 1rem; width: 240px; font-size: .8rem }
main { box-sizing: border-box; max-width: 800px; margin: 4.5rem auto 3rem 300px }
@media (max-width: 1150px) { #quarto-sidebar { display: none }
  main { margin: 4.5rem auto 3rem; padding: 0 12px } }
a { color: #2780e3 } .quarto-dark a { color: #00bc8c } .lead { color: #6c757d }
pre, code { font-family: SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; font-size: .875em }
pre code { font-size: 1em } p code, li code, td code { background: #f6f6f6; padding: .2em }
div.sourceCode { background: rgba(127, 127, 127, .1); border-radius: .25rem; padding: .4rem }
div.sourceCode pre { margin: 0 } pre > code.sourceCode { white-space: pre-wrap }
pre > code.sourceCode > span > a { display: none } pre { overflow-x: auto }
.kw, .cf, .im { color: #00769e } .st, .dv, .fl { color: #20794d } .co { color: #5e5e5e }
.quarto-dark :is(.kw, .cf, .im) { color: #4ec9e0 }
.quarto-dark :is(.st, .dv, .fl) { color: #7ee0a8 } .quarto-dark .co { color: #a0a0a0 }
figure { margin: 0 } figcaption { font-size: .9em; opacity: .8 }
table { border-collapse: collapse }
td, th { border: 0; border-bottom: 1px solid #8885; padding: .25rem }
'''


# One process is faster than two: each imports torch. When it ends, IPython collects garbage once
# for every notebook; after freeze there is nothing to look through.
PROC_NBS = '''
import gc
from nbdev.quarto import nbdev_proc_nbs
nbdev_proc_nbs(n_workers=0)
gc.freeze()
'''


def process(book, home):
    "What nbdev hands to Quarto, made without datasets and network; the folder of the pages"
    env = reader_env(book, home)
    quarto = home/'bin'/'quarto'   # without one, nbdev would install Quarto and this package
    quarto.parent.mkdir()
    quarto.write_text('#!/bin/sh\nexit 1\n')
    quarto.chmod(0o755)
    folders = quarto.parent, Path(sys.executable).parent, env['PATH']
    env['PATH'] = os.pathsep.join(map(str, folders))
    done = subprocess.run([sys.executable, '-c', PROC_NBS], cwd=book, env=env, text=True,
                          capture_output=True, timeout=SLOWEST)
    if done.returncode or 'Found cells containing imports' in done.stderr:
        raise RuntimeError(f'nbdev_proc_nbs failed:\n{done.stdout}{done.stderr}')
    return book/'_proc'


# ---- from a processed notebook to a page

def options(source):
    "A cell's options, such as `code-fold`, and its code"
    lines = source.splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith('#|')), len(lines))
    found = yaml.safe_load('\n'.join(line[2:].strip() for line in lines[:count])) or {}
    return found, '\n'.join(lines[count:]).strip('\n')


def block(kind, text): return f'~~~~~~ {kind}\n{text}\n~~~~~~'
def div(kind, *parts): return '\n\n'.join([f':::::: {{{kind}}}', *parts, '::::::'])
def raw(text): return block('{=html}', text)


def output(one, wanted):
    "One output of a cell, as markdown for pandoc"
    data = one.get('data', {})
    if 'image/png' in data:
        alt, caption = (html.escape(wanted.get(key, '')) for key in ('fig-alt', 'fig-cap'))
        picture = f'<img alt="{alt}" src="data:image/png;base64,{data["image/png"].strip()}">'
        caption = f'<figcaption>{caption}</figcaption>' if caption else ''
        return div('.cell-output .cell-output-display', raw(f'<figure>{picture}{caption}</figure>'))
    if 'text/markdown' in data: return data['text/markdown']
    if 'text/html' in data:
        return div('.cell-output .cell-output-display', raw(data['text/html']))
    text = one.get('text', data.get('text/plain'))
    return div('.cell-output .cell-output-stdout', block('', text))


def code_cell(cell):
    "Code, folded or not, and its outputs"
    wanted, code = options(cell.source)
    parts = []
    if code and wanted.get('echo', True):
        parts = [block('{.python .cell-code}', code)]
        if fold := wanted.get('code-fold'):
            opened = ' open' if fold == 'show' else ''
            summary = wanted.get('code-summary', 'Code')
            head = f'<details class="code-fold"{opened}><summary>{summary}</summary>'
            parts = [raw(head), *parts, raw('</details>')]
    return div('.cell', *parts, *(output(one, wanted) for one in cell.outputs))


def equation(found):
    "A numbered equation with its anchor; MathML knows no tags"
    tex = re.sub(r'\\tag\{([^}]*)\}', r'\\qquad\\text{(\1)}', found[0])
    tag = re.search(r'\\tag\{([^}]*)\}', found[0])
    return f'[{tex}]{{.math .display {f"#eq-{tag[1]}" if tag else ""}}}'


def front_matter(nb): return yaml.safe_load(nb.cells[0].source.strip().strip('-'))


def markdown(nb):
    "A processed notebook as one text in pandoc's markdown"
    shown = [c for c in nb.cells[1:] if c.cell_type == 'code' or c.source]
    texts = [code_cell(c) if c.cell_type == 'code' else re.sub(
        r'\$\$.+?\$\$', equation, c.source, flags=re.S) for c in shown]
    return '\n\n'.join(texts)


def render(proc, to):
    "Make an HTML page of every processed notebook; their paths"
    import pypandoc
    nbs = {path.name: nbformat.read(path, as_version=4) for path in sorted(proc.glob('*.ipynb'))}
    heads = {name: front_matter(nb) for name, nb in nbs.items()}
    config = yaml.safe_load((proc/'_quarto.yml').read_text(encoding='utf-8'))
    link = lambda name: f'<a href="{heads[name]["output-file"]}">{heads[name]["title"]}</a><br>'
    sidebar = ''.join(link(e) if isinstance(e, str) else f'<b>{e["section"]}</b><br>' + ''.join(
        map(link, e['contents'])) for e in config['website']['sidebar']['contents'])
    after = (proc/config['format']['html']['include-after-body']).read_text(encoding='utf-8')
    to.mkdir(parents=True, exist_ok=True)
    shutil.copy(proc/config['format']['html']['css'], to/'styles.css')
    if (proc/'images').is_dir(): shutil.copytree(proc/'images', to/'images', dirs_exist_ok=True)

    def page(name):
        body = pypandoc.convert_text(markdown(nbs[name]), 'html5', 'markdown',
                                     extra_args=['--mathml', '--quiet', '--wrap=none'])
        body = re.sub(r'href="([\w-]+\.ipynb)', lambda found: 'href="' + heads.get(
            found[1], {'output-file': found[1]})['output-file'], body)
        head = heads[name]
        path = to/head['output-file']
        path.write_text(PAGE.format(title=head['title'], description=head.get('description', ''),
                                    theme=THEME, sidebar=sidebar, body=body, after=after),
                        encoding='utf-8')
        return path
    with ThreadPoolExecutor(2) as pool: return list(pool.map(page, nbs))


# ---- screenshots

def sideways(page):
    "How many pixels wider than the window the page is"
    return page.evaluate('document.scrollingElement.scrollWidth - innerWidth')


def screenshots(paths, shots):
    "Screenshots of every page; the pages that scroll sideways at the smallest width"
    from playwright.sync_api import sync_playwright
    shots.mkdir(parents=True, exist_ok=True)
    wide = {}
    with sync_playwright() as playwright:
        sandbox = os.getuid() != 0   # Chromium's sandbox does not work for root
        browser = playwright.chromium.launch(executable_path=chromium(), chromium_sandbox=sandbox)
        for width in WIDTHS:
            page = browser.new_page(viewport=dict(width=width, height=900))
            page.route(re.compile('^https?:'), lambda route: route.abort())
            for path in paths:
                page.goto(path.resolve().as_uri())
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    page.reload()
                    page.screenshot(path=shots/f'{path.stem}_{width}_{scheme}.png', full_page=True)
                if width == min(WIDTHS) and sideways(page) > 0: wide[path.stem] = sideways(page)
            page.close()
        browser.close()
    return wide


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', nargs='?', type=Path, help='of the pages; default: temporary')
    parser.add_argument('--screenshots', type=Path, help='folder of the screenshots')
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix='preview_'))
    with tempfile.TemporaryDirectory() as tmp:
        proc = process(copy_book(Path(tmp)/'book'), Path(tmp)/'home')
        pages = render(proc, folder)
    print(f'{len(pages)} pages: {folder}/index.html')
    if args.screenshots:
        if not chromium(): sys.exit('Screenshots need Chromium (apt-get install chromium).')
        wide = screenshots(pages, args.screenshots)
        print(f'Screenshots: {args.screenshots}')
        print(f'{len(wide)} of {len(pages)} pages scroll sideways at {min(WIDTHS)} px', *(
            f'  {name}: by {pixels} px' for name, pixels in wide.items()), sep='\n')
