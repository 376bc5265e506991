"""Read three chapters in JupyterLab with Chromium, as a reader without datasets would.

Each chapter is opened, all cells are run through the menu, and errors and warnings are counted.
The dial of chapter 9 is moved with the keyboard, given a wrong and a right name, saved, closed
and opened again. Works on a copy of the book; needs `pip install playwright` and Chromium.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from runall import HEADER, copy_book, line, problems, reader_env

CHAPTERS = ('03_ranking', '07_ddpm', '09_negatives')
WITH_DIAL, WRONG, RIGHT = '09_negatives', 'python3-matplotlip', 'python3-django'
THEMES = dict(light='JupyterLab Light', dark='JupyterLab Dark')
TOKEN, MINUTES = 'reader', 60_000   # Playwright counts milliseconds
SLIDER = '.noUi-handle'
NO_NEWS = '{"fetchNews": "false", "checkForUpdates": false}'
BROKEN = ('Error displaying widget', 'model not found', 'Loading widget')
# the notebook in front, in JavaScript
NOTEBOOK = 'window.jupyterapp?.shell?.currentWidget'
READY = f"""() => {NOTEBOOK}?.context?.isReady &&
    {NOTEBOOK}.sessionContext.session?.kernel?.status === 'idle'"""
FINISHED = f"""() => {{
    const cells = [...{NOTEBOOK}.content.model.cells].filter(c => c.type === 'code');
    return cells.some(c => c.executionCount) && cells.every(c => c.executionState !== 'running')
        && {NOTEBOOK}.sessionContext.session.kernel.status === 'idle'; }}"""


def chromium():
    "The path of the system's Chromium, if there is one"
    found = map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))
    return next(filter(None, found), None)


def css(i):
    "How a page finds the cell with this number"
    return f'.jp-Cell[data-windowed-list-index="{i}"]'


@contextmanager
def jupyterlab(book, home):
    "A JupyterLab that serves the copied book, with settings of its own; gives its address"
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    folders = dict(JUPYTER_CONFIG_DIR='config', JUPYTERLAB_SETTINGS_DIR='settings',
                   JUPYTERLAB_WORKSPACES_DIR='workspaces')
    env = reader_env(book, home) | {name: str(home/folder) for name, folder in folders.items()}
    settings = home/'settings'/'@jupyterlab'/'apputils-extension'
    settings.mkdir(parents=True)
    (settings/'notification.jupyterlab-settings').write_text(NO_NEWS)
    command = [sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', f'--port={port}',
               f'--ServerApp.root_dir={book}', f'--IdentityProvider.token={TOKEN}',
               '--LabApp.expose_app_in_browser=True']
    url = f'http://127.0.0.1:{port}'
    with open(home/'jupyterlab.log', 'w') as log:
        server = subprocess.Popen(command, env=env, cwd=book, stdout=log, stderr=log)
        try:
            for _ in range(120):
                try: urlopen(f'{url}/api?token={TOKEN}').close()
                except URLError: time.sleep(.5)
                else: break
            else: sys.exit(f'JupyterLab did not start:\n{(home/"jupyterlab.log").read_text()}')
            yield url
        finally:
            server.terminate()   # its kernels end with it
            server.wait()


class Reader:
    "Somebody at the browser; `page` is Playwright's"
    def __init__(self, page, url, shots): self.page, self.url, self.shots = page, url, shots

    def open(self, name):
        "Open a notebook alone, and wait for its kernel"
        self.page.goto(f'{self.url}/lab/tree/nbs/{name}.ipynb?token={TOKEN}&reset')
        self.page.wait_for_function(READY, timeout=2*MINUTES)

    def menu(self, name, item):
        "Choose an item of a menu"
        self.page.get_by_role('menuitem', name=name, exact=True).click()
        self.page.get_by_role('menuitem', name=item).first.click()

    def run_all(self):
        "Run all cells through the menu; seconds, cells run, warnings and errors"
        start = time.perf_counter()
        self.menu('Run', 'Run All Cells')
        self.page.wait_for_function(FINISHED, timeout=10*MINUTES)
        seconds = time.perf_counter() - start
        return seconds, *problems(self.page.evaluate(f'{NOTEBOOK}.content.model.toJSON()'))

    def cell(self, i):
        "Scroll to a cell"
        for _ in range(2):   # what comes into view may change its height
            self.page.evaluate(f"""i => {{ const book = {NOTEBOOK}.content;
                book.activeCellIndex = i; book.scrollToItem(i, 'start') }}""", i)
            self.page.wait_for_timeout(500)
        return self.page.locator(css(i))

    def screenshots(self, name, i):
        "A cell at the top of the window, in the light and in the dark theme"
        for word, theme in THEMES.items():
            self.page.evaluate("""theme => window.jupyterapp.commands.execute(
                'apputils:change-theme', {theme})""", theme)
            self.page.wait_for_timeout(1500)
            self.cell(i)
            self.page.screenshot(path=self.shots/f'{name}_{word}.png')

    def dial(self):
        "Use the dial with the keyboard; the number of its cell, and what went wrong"
        with_slider = self.page.locator('.jp-Cell', has=self.page.locator(SLIDER))
        i = int(with_slider.first.get_attribute('data-windowed-list-index'))
        cell, found = self.cell(i), []
        slider, box = cell.locator(SLIDER).first, cell.locator('input[type=text]').first
        picture = lambda: cell.locator('.jupyter-widgets img').first.get_attribute('src')
        message = cell.locator('.jp-OutputArea').inner_text
        def changes(what, look, action):
            "Whether something that we look at changes after an action, within ten seconds"
            before = look()
            action()
            for _ in range(100):
                self.page.wait_for_timeout(100)
                if look() != before: return
            found.append(f'{what} changes nothing')
        def choose(name):
            "Type a name into the box"
            box.fill(name)
            box.press('Enter')
        for key in ('ArrowRight', 'ArrowLeft', 'ArrowUp'):
            changes(f'{key} on the slider', picture, lambda key=key: slider.press(key))
        kept = picture()
        changes('a wrong name', message, lambda: choose(WRONG))
        self.page.wait_for_timeout(1000)
        if picture() != kept: found.append('a wrong name changes the picture')
        changes('a right name', picture, lambda: choose(RIGHT))
        return i, found

    def reopen(self, name, i, new_kernel):
        "Save, close and open again; what is wrong with the picture in cell i"
        self.cell(i + 1).locator('.jp-InputPrompt').click()   # a text box keeps its keys to itself
        self.page.keyboard.press('Control+s')
        self.page.wait_for_function(f'() => !{NOTEBOOK}.context.model.dirty')
        if new_kernel:
            self.menu('File', 'Close and Shut Down Notebook')
            self.page.locator('.jp-Dialog .jp-mod-accept').click()
        else: self.menu('File', 'Close Tab')
        self.page.wait_for_function(f'() => !{NOTEBOOK}?.context')
        self.open(name)
        visible = lambda found: any(one.is_visible() for one in found.all())
        for _ in range(10):   # until the outputs above have their heights, and widgets are there
            self.cell(i)
            picture = visible(self.page.locator(f'{css(i)} .jp-OutputArea img'))
            broken = [text for text in BROKEN if visible(self.page.get_by_text(text))]
            if picture and not broken: break
        when = f'opened again with {"a new" if new_kernel else "its"} kernel'
        found = [f'{when}: {text!r} is shown' for text in broken]
        if not picture: found.append(f'{when}: no picture')
        if new_kernel:   # pictures drawn in advance take the place of the widget
            shown = lambda: self.page.locator(f'{css(i)} img:visible').get_attribute('alt')
            before, slider = shown(), self.page.locator(f'{css(i)} input[type=range]')
            box = slider.bounding_box()
            self.page.mouse.click(box['x'] + .8*box['width'], box['y'] + box['height']/2)
            self.page.wait_for_timeout(500)
            if shown() == before: found.append('the pictures drawn in advance do not change')
        return found


def main(shots):
    "Read the chapters and print the table; the number of bad ones"
    from playwright.sync_api import sync_playwright
    bad = 0
    with tempfile.TemporaryDirectory() as tmp, sync_playwright() as playwright:
        book, home = copy_book(Path(tmp)/'book'), Path(tmp)/'home'
        sandbox = os.getuid() != 0   # Chromium's sandbox does not work for root
        browser = playwright.chromium.launch(executable_path=chromium(), chromium_sandbox=sandbox)
        page = browser.new_page(viewport=dict(width=1280, height=900))
        with jupyterlab(book, home) as url:
            reader = Reader(page, url, shots)
            print(HEADER)
            for name in CHAPTERS:
                reader.open(name)
                seconds, count, warnings, errors = reader.run_all()
                reader.screenshots(name, 0)
                print(line(name, seconds, count, len(errors), len(warnings)), flush=True)
                found = errors + warnings
                if name == WITH_DIAL:
                    i, wrong = reader.dial()
                    reader.screenshots('dial', i)
                    for new_kernel in (False, True):
                        wrong += reader.reopen(name, i, new_kernel)
                        reader.screenshots('dial_new_kernel' if new_kernel else 'dial_again', i)
                    found += [f'dial: {what}' for what in wrong]
                for what in found: print(f'    {what[:160]}', flush=True)
                bad += bool(found)
        browser.close()
    return bad


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--screenshots', type=Path, help='folder; default: a temporary one')
    shots = parser.parse_args().screenshots or Path(tempfile.mkdtemp(prefix='screenshots_'))
    missing = [] if find_spec('playwright') else ['Playwright (pip install playwright)']
    if not chromium(): missing.append('Chromium (apt-get install chromium)')
    if missing:
        print(f'Skipped: there is no {", no ".join(missing)}.')
        sys.exit()
    shots.mkdir(parents=True, exist_ok=True)
    bad = main(shots)
    print(f'Screenshots: {shots}')
    if bad: sys.exit(f'{bad} of the chapters have problems.')
