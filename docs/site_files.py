"""Additions of the site to docs/: files of the repository, and links of public names.

Links are written as they hold on GitHub. A file or folder of the repository that a page links to
is put below ``files/``, and the link leads there: a folder and a text in Markdown as a page,
another file as a text. mkdocs calls the functions ``on_...``.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import bload

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()([^()\s#:]+)(?=[)#])")
NAME = re.compile(r'(?<!">)<code>(?:bload\.)?(\w+)</code>')
TARGETS: dict[str, str] = {}
"""Path in the repository -> path below docs/ as mkdocs sees it, for everything outside docs/."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what that links to in turn."""
    TARGETS.clear()
    pages = files.documentation_pages()
    waiting = [(f"docs/{page.src_uri}", page.content_string) for page in pages]
    while waiting:
        source, text = waiting.pop()
        for path in {_resolve(source, link) for link in LINK.findall(text)} - {*TARGETS}:
            place, uri = ROOT / path, f"files/{path}"
            if not place.exists() or (path.startswith("docs/") and place.is_file()):
                continue  # a page or picture of docs/, or a wrong link, which mkdocs reports
            if place.is_dir():
                names = sorted(child.name for child in place.iterdir() if child.name[0] not in "._")
                content = "\n".join([f"# {path}\n", *(f"* [{name}]({name})" for name in names)])
                file = File.generated(config, f"{uri}/index.md", content=content)
            elif place.suffix == ".md":
                content = place.read_text()
                file = File.generated(config, uri, content=content)
            else:
                content = ""
                file = File.generated(config, f"{uri}.txt", abs_src_path=str(place))
            files.append(file)
            TARGETS[path] = file.src_uri
            waiting.append((path, content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where `on_files` has put the files."""
    here = page.file.src_uri
    source = {uri: path for path, uri in TARGETS.items()}.get(here, f"docs/{here}")

    def lead(match: re.Match[str]) -> str:
        path = _resolve(source, match[1])
        target = TARGETS.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if target is None or not (ROOT / path).exists():
            return match[1]
        return posixpath.relpath(target, posixpath.dirname(here) or ".")

    return LINK.sub(lead, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link public names of `bload` in code within a line to the API pages."""

    def link(match: re.Match[str]) -> str:
        tag = f'<autoref identifier="bload.{match[1]}" optional>{match[0]}</autoref>'
        return tag if match[1] in bload.__all__ else match[0]

    return NAME.sub(link, html)


def _resolve(source: str, link: str) -> str:
    """Return the path in the repository of a link in the file or folder `source`."""
    folder = source if (ROOT / source).is_dir() else posixpath.dirname(source)
    path = posixpath.normpath(posixpath.join(folder, link))
    readme = posixpath.join(path, "README.md")
    return readme if not path.startswith("docs") and (ROOT / readme).is_file() else path
